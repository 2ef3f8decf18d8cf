//! Which cores the process takes, said to the library through its environment.

use std::fmt;
use std::num::NonZeroU32;

use metaneff_schema::cores::CoreRange;

use crate::error::OpenError;
use crate::sys::{Exclusive, set_variable};

/// Cores of the instance; wins over [`NUMBER`].
pub(crate) const VISIBLE: &str = "NEURON_RT_VISIBLE_CORES";

/// Number of free cores; 0 is all.
pub(crate) const NUMBER: &str = "NEURON_RT_NUM_CORES";

/// Cores that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    Visible(CoreRange),
    Number(NonZeroU32),
    All,
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Visible(range) => write!(f, "cores {range}"),
            Self::Number(count) => write!(f, "{count} free cores"),
            Self::All => f.write_str("all cores"),
        }
    }
}

/// What the environment must say.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// The value does not matter.
    Any,
    Unset,
    Text(String),
}

/// Makes the environment say what is asked for, and checks what it says.
///
/// Returns the number of cores that the library has to see then, if it is known.
pub(crate) fn prepare(
    cores: Option<Cores>,
    total: Option<u32>,
    promise: Option<Exclusive>,
) -> Result<Option<u32>, OpenError> {
    let visible = variable(VISIBLE)?;
    let number = variable(NUMBER)?;
    let Some(cores) = cores else {
        return inherited(visible.as_deref(), number.as_deref(), total);
    };
    let (wanted_visible, wanted_number, expected) = match cores {
        Cores::Visible(range) => {
            if let Some(total) = total {
                within(VISIBLE, &range.to_string(), range.within(total))?;
            }
            let same = visible.as_deref().and_then(|text| text.parse().ok()) == Some(range);
            let wanted = if same {
                Wanted::Any
            } else {
                Wanted::Text(range.to_string())
            };
            (wanted, Wanted::Any, Some(range.count()))
        }
        Cores::Number(count) => {
            if let Some(total) = total {
                let chosen = CoreRange::choose(None, count.get(), total);
                within(NUMBER, &count.to_string(), chosen)?;
            }
            (
                Wanted::Unset,
                Wanted::Text(count.to_string()),
                Some(count.get()),
            )
        }
        Cores::All => {
            let all = number.as_deref().is_some_and(|text| text.trim() == "0");
            let wanted = if all { Wanted::Any } else { Wanted::Unset };
            (Wanted::Unset, wanted, total)
        }
    };
    make(VISIBLE, &wanted_visible, visible.as_deref(), promise)?;
    make(NUMBER, &wanted_number, number.as_deref(), promise)?;
    Ok(expected)
}

/// Checks what the environment says. Nothing is expected of the library where
/// its total is not known.
fn inherited(
    visible: Option<&str>,
    number: Option<&str>,
    total: Option<u32>,
) -> Result<Option<u32>, OpenError> {
    let name = if visible.is_some() { VISIBLE } else { NUMBER };
    let value = visible.or(number).unwrap_or_default();
    // The largest number stands for an instance of unknown size.
    let known = total.filter(|total| *total > 0);
    let chosen = CoreRange::select(visible, number, known.unwrap_or(u32::MAX - 1));
    let range = within(name, value, chosen)?;
    Ok(known.map(|_| range.count()))
}

fn within(
    variable: &'static str,
    value: &str,
    chosen: Result<CoreRange, metaneff_schema::cores::CoreRangeError>,
) -> Result<CoreRange, OpenError> {
    chosen.map_err(|source| OpenError::Cores {
        variable,
        value: value.to_owned(),
        source,
    })
}

fn variable(name: &'static str) -> Result<Option<String>, OpenError> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(value)) => {
            let value = value.to_string_lossy().into_owned();
            let source = metaneff_schema::cores::CoreRangeError::NotANumber {
                token: value.clone(),
            };
            Err(OpenError::Cores {
                variable: name,
                value,
                source,
            })
        }
    }
}

fn make(
    name: &'static str,
    wanted: &Wanted,
    found: Option<&str>,
    promise: Option<Exclusive>,
) -> Result<(), OpenError> {
    let value = match wanted {
        Wanted::Any => return Ok(()),
        Wanted::Unset => None,
        Wanted::Text(value) => Some(value.as_str()),
    };
    if value == found {
        return Ok(());
    }
    set_variable(name, value, promise).map_err(|threads| OpenError::Environment {
        variable: name,
        wanted: value.map(str::to_owned),
        found: found.map(str::to_owned),
        threads,
    })
}

/// Whether nobody chose cores: the runtime takes all then.
pub(crate) fn claims_all(cores: Option<Cores>) -> bool {
    let set = |name| std::env::var_os(name).is_some();
    cores.is_none() && !set(VISIBLE) && !set(NUMBER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_checked() {
        assert_eq!(inherited(None, None, Some(4)).unwrap(), Some(4));
        assert_eq!(inherited(None, None, None).unwrap(), None);
        assert_eq!(inherited(Some("1-2"), Some("4"), Some(4)).unwrap(), Some(2));
        assert_eq!(inherited(None, Some("3"), Some(4)).unwrap(), Some(3));
        assert_eq!(inherited(Some("7"), None, None).unwrap(), None);
        assert_eq!(
            inherited(Some("0,2"), None, Some(4))
                .unwrap_err()
                .to_string(),
            "NEURON_RT_VISIBLE_CORES is `0,2`: `2` leaves a gap: core 1 is missing"
        );
        assert_eq!(
            inherited(None, Some("5"), Some(4)).unwrap_err().to_string(),
            "NEURON_RT_NUM_CORES is `5`: 5 cores are asked for, but the instance has 4"
        );
    }
}
