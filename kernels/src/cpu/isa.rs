//! Which instructions this processor has, and functions compiled once for each.

/// An instruction set that this processor was found to have; so holding one is proof that it may be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Isa(pub(crate) Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl std::fmt::Debug for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Isa {
    /// All that this processor has, the best last. Every one gives the same bits.
    #[must_use]
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "grows on x86-64 only")]
        let mut found = vec![Self(Level::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 && is_x86_feature_detected!("f16c") {
                found.push(Self(Level::Avx2));
                let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
                let wide = wide && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512dq");
                if wide && is_x86_feature_detected!("avx512vnni") {
                    found.push(Self(Level::Avx512));
                }
            }
        }
        found
    }

    /// The best that this processor has.
    #[must_use]
    pub fn best() -> Self {
        *Self::available().last().unwrap_or(&Self(Level::Portable))
    }
}

/// Asks for the cache line of an element; nothing where there is none, or no such instruction.
#[inline(always)]
pub(crate) fn prefetch<T>(of: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has it, and it reads nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(of.as_ptr().wrapping_add(at).cast()) };
    }
}

/// Declares `fn name(isa, args)` that runs the `#[inline(always)]` function `body(args)` compiled for the instruction
/// set. Bodies use plain arithmetic and `mul_add` in a fixed order, so each compilation gives the same bits: Rust never
/// reorders or contracts float operations. They avoid closures (`array::map` and the like), which are compiled on their
/// own, without the instruction set, and would call a library for each `mul_add`.
macro_rules! versions {
    ($(#[$doc:meta])* $vis:vis fn $name:ident = $body:ident $([$($g:tt)*])? ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)?) => {
        $(#[$doc])*
        $vis fn $name $(<$($g)*>)? (isa: crate::cpu::isa::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2 $(<$($g)*>)? ($($arg: $ty),*) $(-> $ret)? {
                $body($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
            fn avx512 $(<$($g)*>)? ($($arg: $ty),*) $(-> $ret)? {
                $body($($arg),*)
            }
            match isa.0 {
                crate::cpu::isa::Level::Portable => $body($($arg),*),
                // SAFETY: an `Isa` of this level exists only where the processor has these features.
                #[cfg(target_arch = "x86_64")]
                crate::cpu::isa::Level::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                crate::cpu::isa::Level::Avx512 => unsafe { avx512($($arg),*) },
            }
        }
    };
}
pub(crate) use versions;
