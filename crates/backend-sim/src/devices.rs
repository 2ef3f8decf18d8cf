//! The chips that a process can open.
//!
//! A container sees all of the host's chips in sysfs, and may open but some:
//! the device nodes count.

use std::fs::File;
use std::path::Path;

/// Files of `directory` that are called `neuron` and a number, and that can be
/// opened.
pub(crate) fn count(directory: &Path) -> u32 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let openable = entries.filter(|entry| {
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix("neuron"));
        digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
            && File::open(entry.path()).is_ok()
    });
    u32::try_from(openable.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimBuilder;

    #[test]
    fn nodes_that_can_be_opened_count() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["neuron0", "neuron3", "neuron", "neuronx", "null"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("nowhere", directory.path().join("neuron1")).unwrap();
        assert_eq!(count(directory.path()), 2);
        assert_eq!(count(&directory.path().join("missing")), 0);
        let variables = [
            ("METANEFF_SIM_INSTANCE", "inf2.24xlarge"),
            ("METANEFF_SIM_DEV_DIR", directory.path().to_str().unwrap()),
        ];
        let builder = SimBuilder::from_variables(variables).unwrap();
        let topology = builder.topology().unwrap();
        assert_eq!((topology.chips, topology.total), (2, 4));
        let more = SimBuilder::default().devices(9).topology().unwrap();
        assert_eq!((more.chips, more.total), (1, 2));
    }
}
