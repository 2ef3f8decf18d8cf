//! The instances that can be simulated.
//!
//! Chips, cores and memory are those of the hardware pages of the Neuron
//! documentation (*Inf2*, *Trn1*, *Trn2* and *Trn3 architecture*, and the pages
//! of their chips). Family and size numbers are those of `nrt.h`.
//!
//! Three things are assumptions. The public pages do not say what `nrt.h`
//! reports as `arch_name`: it is taken to be the architecture type that the
//! driver's sysfs tree shows (`NCv2` is the documented sample). `trn2.3xlarge`
//! is named by the public deployment files without its size, and taken to have
//! one chip. Trn3 servers are documented without size names; a server of a Gen1
//! UltraServer is called `trn3` here and one of a Gen2 UltraServer `trn3pds`.

use std::fmt;
use std::str::FromStr;

const GIB: u64 = 1 << 30;

/// `NRT_INSTANCE_SIZE_UNKNOWN` of `nrt.h`.
const UNKNOWN_SIZE: u32 = 9;

macro_rules! instances {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, family $family:literal, size $size:expr, $chip:expr, $chips:literal;)+) => {
        /// An instance type.
        ///
        /// # Examples
        ///
        /// ```
        /// use metaneff_backend_sim::Instance;
        ///
        /// let profile = Instance::Trn1_2xlarge.profile();
        /// assert_eq!((profile.chips, profile.physical_cores), (1, 2));
        /// assert_eq!(profile.memory_per_core, 16 << 30);
        /// assert_eq!("trn2.48xlarge".parse(), Ok(Instance::Trn2_48xlarge));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[expect(non_camel_case_types, reason = "spelled as the instances are")]
        pub enum Instance {
            $($(#[$doc])* $variant,)+
        }

        impl Instance {
            /// Every instance type, smallest first within a family.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name, such as `trn1.2xlarge`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What the instance has.
            #[must_use]
            pub const fn profile(self) -> Profile {
                match self {
                    $(Self::$variant => Profile::new($family, $size, $chip, $chips),)+
                }
            }
        }
    };
}

instances! {
    /// One Inferentia2 chip.
    Inf2_xlarge = "inf2.xlarge", family 4, size 0, INFERENTIA2, 1;
    /// One Inferentia2 chip, a larger host.
    Inf2_8xlarge = "inf2.8xlarge", family 4, size 4, INFERENTIA2, 1;
    /// Six Inferentia2 chips.
    Inf2_24xlarge = "inf2.24xlarge", family 4, size 5, INFERENTIA2, 6;
    /// Twelve Inferentia2 chips.
    Inf2_48xlarge = "inf2.48xlarge", family 4, size 7, INFERENTIA2, 12;
    /// One Trainium chip.
    Trn1_2xlarge = "trn1.2xlarge", family 2, size 1, TRAINIUM, 1;
    /// Sixteen Trainium chips.
    Trn1_32xlarge = "trn1.32xlarge", family 2, size 6, TRAINIUM, 16;
    /// Sixteen Trainium chips, a wider network.
    Trn1n_32xlarge = "trn1n.32xlarge", family 3, size 6, TRAINIUM, 16;
    /// One Trainium2 chip.
    Trn2_3xlarge = "trn2.3xlarge", family 5, size 8, TRAINIUM2, 1;
    /// Sixteen Trainium2 chips.
    Trn2_48xlarge = "trn2.48xlarge", family 5, size 7, TRAINIUM2, 16;
    /// Sixteen Trainium2 chips of an UltraServer.
    Trn2u_48xlarge = "trn2u.48xlarge", family 9, size 7, TRAINIUM2, 16;
    /// Sixteen Trainium3 chips: a server of a Gen1 UltraServer.
    Trn3 = "trn3", family 14, size UNKNOWN_SIZE, TRAINIUM3, 16;
    /// Four Trainium3 chips: a server of a Gen2 UltraServer.
    Trn3pds = "trn3pds", family 15, size UNKNOWN_SIZE, TRAINIUM3, 4;
}

struct Chip {
    cores: u32,
    memory: u64,
    architecture: &'static str,
    target: &'static str,
    virtual_core_size: u32,
}

const INFERENTIA2: Chip = Chip {
    cores: 2,
    memory: 32 * GIB,
    architecture: "NCv2",
    target: "sunda",
    virtual_core_size: 1,
};

const TRAINIUM: Chip = Chip {
    cores: 2,
    memory: 32 * GIB,
    architecture: "NCv2",
    target: "sunda",
    virtual_core_size: 1,
};

/// Two physical cores make one logical core unless the user says otherwise
/// (*Logical NeuronCore configuration*).
const TRAINIUM2: Chip = Chip {
    cores: 8,
    memory: 96 * GIB,
    architecture: "NCv3",
    target: "cayman",
    virtual_core_size: 2,
};

const TRAINIUM3: Chip = Chip {
    cores: 8,
    memory: 144 * GIB,
    architecture: "NCv4",
    target: "mariana",
    virtual_core_size: 2,
};

/// What an instance has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// `family` of `nrt_instance_info_t`.
    pub family: u32,
    /// `size` of `nrt_instance_info_t`.
    pub size: u32,
    /// `arch_name` of `nrt_instance_info_t`.
    pub architecture: &'static str,
    /// `device_revision` of `nrt_instance_info_t`; the simulator has none.
    pub revision: &'static str,
    /// The name of the architecture in a NEFF's `target` field.
    pub target: &'static str,
    /// Accelerator chips.
    pub chips: u32,
    /// NeuronCores in hardware, of all chips.
    pub physical_cores: u32,
    /// Physical cores that make one logical core unless configured otherwise.
    pub virtual_core_size: u32,
    /// Bytes of device memory for each physical core: the chip's memory in
    /// equal parts. On hardware, neighbouring cores may share a stack of it.
    pub memory_per_core: u64,
}

impl Profile {
    const fn new(family: u32, size: u32, chip: Chip, chips: u32) -> Self {
        Self {
            family,
            size,
            architecture: chip.architecture,
            revision: "",
            target: chip.target,
            chips,
            physical_cores: chip.cores * chips,
            virtual_core_size: chip.virtual_core_size,
            memory_per_core: chip.memory / chip.cores as u64,
        }
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not an instance type's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a simulated instance type; there are {}", names())]
pub struct UnknownInstance {
    name: String,
}

impl UnknownInstance {
    /// The name that was asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for Instance {
    type Err = UnknownInstance;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|i| i.name() == name);
        found.copied().ok_or_else(|| UnknownInstance {
            name: name.to_owned(),
        })
    }
}

fn names() -> String {
    let names: Vec<_> = Instance::ALL.iter().map(|i| i.name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_memory_are_those_of_the_hardware_pages() {
        for (instance, cores, gib) in [
            (Instance::Inf2_xlarge, 2, 32),
            (Instance::Inf2_8xlarge, 2, 32),
            (Instance::Inf2_24xlarge, 12, 192),
            (Instance::Inf2_48xlarge, 24, 384),
            (Instance::Trn1_2xlarge, 2, 32),
            (Instance::Trn1_32xlarge, 32, 512),
            (Instance::Trn1n_32xlarge, 32, 512),
            (Instance::Trn2_3xlarge, 8, 96),
            (Instance::Trn2_48xlarge, 128, 1536),
            (Instance::Trn2u_48xlarge, 128, 1536),
            (Instance::Trn3, 128, 2304),
            (Instance::Trn3pds, 32, 576),
        ] {
            let profile = instance.profile();
            assert_eq!(profile.physical_cores, cores, "{instance}");
            let memory = profile.memory_per_core * u64::from(profile.physical_cores);
            assert_eq!(memory, gib * GIB, "{instance}");
            assert_eq!(instance.name().parse(), Ok(instance));
        }
        assert_eq!(Instance::ALL.len(), 12);
    }

    #[test]
    fn architecture_names_fit_the_header_field() {
        for instance in Instance::ALL {
            assert!(instance.profile().architecture.len() < 16);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "inf9.huge".parse::<Instance>().unwrap_err();
        assert_eq!(error.name(), "inf9.huge");
        assert!(error.to_string().contains("trn1.2xlarge"), "{error}");
    }
}
