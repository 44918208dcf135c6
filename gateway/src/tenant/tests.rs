//! Laws of the limits: nothing is lost or made over any interleaving, and refusals are free and truthful.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn tenant(requests: Option<u32>, tokens: Option<u32>, concurrent: Option<u32>) -> config::Tenant {
    config::Tenant {
        name: "t".to_owned(),
        key_sha256: vec![key::Hash::of("k")],
        models: vec!["*".to_owned()],
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        max_concurrent_requests: concurrent,
        weight: 1,
        priority: 0,
    }
}

#[derive(Debug, Default)]
struct Used(AtomicU64);

impl Consumption for Used {
    fn tokens(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_key_finds_its_tenant_and_no_other_does() {
    let mut second = tenant(None, None, None);
    second.name = "second".to_owned();
    second.key_sha256 = vec![key::Hash::of("old"), key::Hash::of("new")];
    let tenants = Tenants::new(&[tenant(None, None, None), second]);
    let name = |key: &str| tenants.by_key(key).map(|t| t.name.to_string());
    assert_eq!(name("k").as_deref(), Some("t"));
    assert_eq!(name("old").as_deref(), Some("second"));
    assert_eq!(name("new").as_deref(), Some("second"));
    assert_eq!(name(""), None);
    assert_eq!(name("K"), None);
}

#[test]
fn a_refusal_costs_nothing() {
    let now = Instant::now();
    let ledger = Ledger::new(&tenant(Some(2), Some(100), Some(1)), now);
    ledger.admit(40, now).unwrap();
    let before = ledger.standing(now);
    for _ in 0..50 {
        assert_eq!(ledger.admit(10, now).unwrap_err().limit, Limit::Concurrency);
        assert_eq!(ledger.standing(now), before);
    }
    ledger.settle(40, 10, Duration::from_secs(1), now);
    ledger.admit(90, now).unwrap();
    assert_eq!(ledger.standing(now).tokens.unwrap().remaining, 0);
}

#[test]
fn a_permit_settles_when_it_is_dropped() {
    let tenants = Tenants::new(&[tenant(None, Some(5000), Some(1))]);
    let tenant = tenants.by_key("k").unwrap();
    let used = Arc::new(Used::default());
    let permit = Permit::take(tenant, 1000, Arc::clone(&used) as _).unwrap();
    assert!(Permit::take(tenant, 1, Arc::clone(&used) as _).is_err());
    assert!(tenant.ledger.standing(Instant::now()).tokens.unwrap().remaining < 4100);
    used.0.store(10, Ordering::Relaxed);
    drop(permit);
    let standing = tenant.ledger.standing(Instant::now());
    assert_eq!(standing.running, 0);
    assert!(standing.tokens.unwrap().remaining >= 4990);
}

#[test]
fn simultaneous_requests_never_overshoot() {
    let now = Instant::now();
    let ledger = Ledger::new(&tenant(Some(50), None, Some(10)), now);
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    admitted.fetch_add(u64::from(ledger.admit(1, now).is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 10);
    assert_eq!(ledger.standing(now).running, 10);
    assert_eq!(ledger.standing(now).requests.unwrap().remaining, 40);
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Admit(u64),
    Settle { which: prop::sample::Index, used: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..30_000).prop_map(Step::Wait),
        (0u64..600).prop_map(Step::Admit),
        (any::<prop::sample::Index>(), 0u64..600).prop_map(|(which, used)| Step::Settle { which, used }),
    ]
}

proptest! {
    /// Over any interleaving: running = admitted - settled, never above the limit; a refused step changes nothing;
    /// waiting as long as a refusal says is enough for rates, and a little less is not.
    #[test]
    fn slots_and_tokens_are_conserved(
        requests in prop::option::of(1u32..20),
        tokens in prop::option::of(1u32..1000),
        concurrent in prop::option::of(1u32..6),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut now = Instant::now();
        let ledger = Ledger::new(&tenant(requests, tokens, concurrent), now);
        let mut running: Vec<u64> = Vec::new();
        for step in steps {
            let before = ledger.standing(now);
            match step {
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Admit(cost) => match ledger.admit(cost, now) {
                    Ok(()) => running.push(cost),
                    Err(refusal) => {
                        prop_assert_eq!(ledger.standing(now), before);
                        if refusal.limit != Limit::Concurrency {
                            let later = ledger.check(cost, now + refusal.retry_after);
                            prop_assert!(later.is_ok() || later.unwrap_err().limit == Limit::Concurrency);
                            let early = now + refusal.retry_after - Duration::from_nanos(1);
                            prop_assert!(ledger.check(cost, early).is_err());
                        }
                    }
                },
                Step::Settle { which, used } if !running.is_empty() => {
                    let reserved = running.swap_remove(which.index(running.len()));
                    ledger.settle(reserved, used, Duration::from_millis(5), now);
                    if let (Some(before), Some(after)) = (before.tokens, ledger.standing(now).tokens) {
                        let shift = i64::from(after.remaining) - i64::from(before.remaining);
                        let owed = i64::try_from(reserved).unwrap() - i64::try_from(used).unwrap();
                        prop_assert!(shift.abs() <= owed.abs() && (shift == 0 || (shift > 0) == (owed > 0)));
                    }
                }
                Step::Settle { .. } => {}
            }
            let standing = ledger.standing(now);
            prop_assert_eq!(standing.running as usize, running.len());
            prop_assert!(concurrent.is_none_or(|max| standing.running <= max));
        }
        for reserved in running.drain(..) {
            ledger.settle(reserved, 0, Duration::ZERO, now);
        }
        // Idle for long enough, everything is there again.
        let idle = ledger.standing(now + Duration::from_secs(24 * 3600));
        prop_assert_eq!(idle.running, 0);
        prop_assert_eq!(idle.requests.map(|r| r.remaining), requests);
        prop_assert_eq!(idle.tokens.map(|r| r.remaining), tokens);
    }
}
