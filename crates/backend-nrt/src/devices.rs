//! Neuron devices of this machine, as far as this process may see them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A device node such as `/dev/neuron0`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceNode {
    /// Its number.
    pub index: u32,
    /// Its path.
    pub path: PathBuf,
    /// Why this process cannot open it, if so.
    pub refused: Option<String>,
}

/// A process that has a device node open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceHolder {
    /// Its process id.
    pub process: u32,
    /// The node.
    pub path: PathBuf,
}

/// The device nodes of a machine or container.
///
/// They are counted in `/dev`: `/sys` shows a container the devices of its host
/// too.
///
/// # Examples
///
/// ```
/// use metaneff_backend_nrt::Devices;
///
/// let devices = Devices::scan("/nowhere");
/// assert_eq!(devices.usable(), 0);
/// assert_eq!(devices.to_string(), "there is no /nowhere/dev/neuron*");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices {
    pattern: PathBuf,
    nodes: Vec<DeviceNode>,
}

impl Devices {
    /// Looks below `root`, which is `/` but for tests.
    #[must_use]
    pub fn scan(root: impl AsRef<Path>) -> Self {
        let folder = root.as_ref().join("dev");
        let mut nodes: Vec<_> = fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let index = node_index(entry.file_name().to_str()?)?;
                let path = entry.path();
                let refused = fs::File::open(&path).err().map(|error| error.to_string());
                Some(DeviceNode {
                    index,
                    path,
                    refused,
                })
            })
            .collect();
        nodes.sort_by_key(|node| node.index);
        Self {
            pattern: folder.join("neuron*"),
            nodes,
        }
    }

    /// Every node, by number.
    #[must_use]
    pub fn nodes(&self) -> &[DeviceNode] {
        &self.nodes
    }

    /// Nodes that this process can open.
    #[must_use]
    pub fn usable(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| node.refused.is_none())
            .count()
    }

    /// Processes below `root` that have one of the nodes open, as far as this
    /// process may look.
    #[must_use]
    pub fn holders(&self, root: impl AsRef<Path>) -> Vec<DeviceHolder> {
        let mut holders = Vec::new();
        let own = std::process::id();
        for process in fs::read_dir(root.as_ref().join("proc"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = process.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let descriptors = fs::read_dir(process.path().join("fd"));
            let open: Vec<_> = descriptors
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
                .collect();
            for node in &self.nodes {
                if id != own && open.contains(&node.path) {
                    holders.push(DeviceHolder {
                        process: id,
                        path: node.path.clone(),
                    });
                }
            }
        }
        holders.sort_by(|a, b| (a.process, &a.path).cmp(&(b.process, &b.path)));
        holders
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = self.pattern.display();
        if self.nodes.is_empty() {
            return write!(f, "there is no {pattern}");
        }
        let (usable, all) = (self.usable(), self.nodes.len());
        write!(f, "{usable} of {all} {pattern} can be opened")?;
        match self
            .nodes
            .iter()
            .find_map(|node| node.refused.as_ref().map(|why| (node, why)))
        {
            Some((node, why)) => write!(f, " ({}: {why})", node.path.display()),
            None => Ok(()),
        }
    }
}

/// The number in `neuron12`; other nodes of the driver have no plain number.
fn node_index(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("neuron")?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_in_dev() {
        let root = tempfile::tempdir().unwrap();
        for index in 0..12 {
            let name = format!("sys/class/neuron_device/neuron{index}");
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        let dev = root.path().join("dev");
        fs::create_dir_all(&dev).unwrap();
        for name in [
            "neuron10",
            "neuron2",
            "neuron",
            "neuron_ctl",
            "neuron1a",
            "null",
        ] {
            fs::write(dev.join(name), "").unwrap();
        }
        let devices = Devices::scan(root.path());
        let indices: Vec<_> = devices.nodes().iter().map(|node| node.index).collect();
        assert_eq!(indices, [2, 10]);
        assert_eq!(devices.usable(), 2);
        assert!(devices.to_string().starts_with("2 of 2 "));
    }

    #[test]
    fn a_node_that_cannot_be_opened_says_why() {
        let root = tempfile::tempdir().unwrap();
        let dev = root.path().join("dev");
        fs::create_dir_all(&dev).unwrap();
        std::os::unix::fs::symlink("nothing", dev.join("neuron0")).unwrap();
        let devices = Devices::scan(root.path());
        assert_eq!(devices.usable(), 0);
        assert!(devices.to_string().contains("No such file"), "{devices}");
    }

    #[test]
    fn processes_that_hold_a_node_are_named() {
        let root = tempfile::tempdir().unwrap();
        let dev = root.path().join("dev");
        let descriptors = root.path().join("proc/4294967295/fd");
        fs::create_dir_all(&dev).unwrap();
        fs::create_dir_all(&descriptors).unwrap();
        fs::write(dev.join("neuron0"), "").unwrap();
        std::os::unix::fs::symlink(dev.join("neuron0"), descriptors.join("7")).unwrap();
        let holders = Devices::scan(root.path()).holders(root.path());
        assert_eq!(holders.len(), 1);
        assert_eq!(holders[0].process, u32::MAX);
        assert_eq!(holders[0].path, dev.join("neuron0"));
    }
}
