//! Accelerators by their data sheets: dense peaks without sparsity, link bandwidth in one direction.

/// One kind of device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// As the command line takes it.
    pub name: &'static str,
    /// Bytes.
    pub memory: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Multiplications and additions a second on 4-bit floats; none if the device has no such units.
    pub fp4: Option<f64>,
    /// On 8-bit floats.
    pub fp8: f64,
    /// On bfloat16.
    pub bf16: f64,
    /// Bytes a second to its neighbours, in one direction.
    pub link: f64,
}

const GB: f64 = 1e9;
const T: f64 = 1e12;

/// Those that are known.
pub const DEVICES: [Device; 4] = [
    // GDDR7; PCIe 5.0 x16.
    Device {
        name: "rtx-pro-6000",
        memory: 96.0 * GB,
        bandwidth: 1792.0 * GB,
        fp4: Some(2015.0 * T),
        fp8: 1007.0 * T,
        bf16: 503.0 * T,
        link: 64.0 * GB,
    },
    // HBM3; NVLink 4.
    Device {
        name: "h100",
        memory: 80.0 * GB,
        bandwidth: 3350.0 * GB,
        fp4: None,
        fp8: 1979.0 * T,
        bf16: 989.0 * T,
        link: 450.0 * GB,
    },
    // HBM3e; NVLink 4.
    Device {
        name: "h200",
        memory: 141.0 * GB,
        bandwidth: 4800.0 * GB,
        fp4: None,
        fp8: 1979.0 * T,
        bf16: 989.0 * T,
        link: 450.0 * GB,
    },
    // HBM3e; NVLink 5.
    Device {
        name: "b200",
        memory: 180.0 * GB,
        bandwidth: 8000.0 * GB,
        fp4: Some(9000.0 * T),
        fp8: 4500.0 * T,
        bf16: 2250.0 * T,
        link: 900.0 * GB,
    },
];

/// A device by name.
#[must_use]
pub fn device(name: &str) -> Option<Device> {
    DEVICES.into_iter().find(|d| d.name == name)
}
