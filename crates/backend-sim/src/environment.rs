//! Setting up a simulator from environment variables.
//!
//! The environment is read only where [`SimBuilder::from_environment`] or
//! [`SimBuilder::from_variables`] is called. Two groups of variables count: the
//! runtime's own, as its documentation has them, and the simulator's, under the
//! prefix [`PREFIX`]. A variable with that prefix that is not in [`VARIABLES`]
//! is an error, for a misspelt one would go unnoticed.
//!
//! | variable | value | unless set | meaning |
//! |---|---|---|---|
//! | `METANEFF_SIM_INSTANCE` | instance type | `trn1.2xlarge` | what is simulated |
//! | `METANEFF_SIM_MEMORY` | bytes, `KiB`, `MiB`, `GiB` | the instance's | device memory of each logical core |
//! | `METANEFF_SIM_HOST_MEMORY` | bytes, `KiB`, `MiB`, `GiB` | no limit | host memory for tensors |
//! | `METANEFF_SIM_NAN` | `ignore`, `outputs`, `any` | `outputs` | which NaN gives status 1003 |
//! | `METANEFF_SIM_OOB` | `xla`, `strict` | `xla` | an index outside: clamp and drop, or status 1006 |
//! | `METANEFF_SIM_DENORMALS` | `ieee`, `ftz` | `ieee` | denormals kept, or flushed to zero |
//! | `METANEFF_SIM_DOT` | `exact`, `bf16` | `exact` | rounding of the operands of matrix products |
//! | `METANEFF_SIM_REDUCE` | `wide`, `xla` | `wide` | narrow types reduced in 32 bits, or as XLA does on a CPU |
//! | `METANEFF_SIM_REWRITES` | `none`, `xla` | `none` | the module as it stands, or XLA's rewrites that change results |
//! | `METANEFF_SIM_RNG_SEED` | number | `0` | seed of the numbers that `rng` draws |
//! | `METANEFF_SIM_COMPUTE_MEMORY` | bytes, `KiB`, `MiB`, `GiB` | no limit | host memory for the intermediate values of one execution |
//! | `METANEFF_SIM_STEPS` | number | no limit | instructions of one execution |
//! | `METANEFF_SIM_LATENCY` | `us`, `ms`, `s` | `0us` | time added to an execution |
//! | `METANEFF_SIM_LOAD_LATENCY` | `us`, `ms`, `s` | `0us` | time added to a load |
//! | `METANEFF_SIM_TRANSFER_LATENCY` | `us`, `ms`, `s` | `0us` | time added to a read, write or copy |
//! | `METANEFF_SIM_TIMEOUT` | `us`, `ms`, `s`, `none` | `600s` | limit of an execution; wins over the runtime's variable |
//! | `METANEFF_SIM_CONCURRENCY` | `shared`, `exclusive` | `shared` | a busy core executes too, or answers 1005 |
//! | `METANEFF_SIM_EXTRA_NAMES` | `refuse`, `ignore` | `refuse` | names in a set that the model does not have |
//! | `METANEFF_SIM_FAULTS` | [faults](mod@crate::fault) | none | faults to show |
//! | `METANEFF_SIM_DUMP_DIR` | path | the working directory | where input dumps go |
//! | `METANEFF_SIM_GRAPH_PATH` | folders, separated by `:` | none | C library: where to look for the graph of a NEFF that carries none |
//! | `METANEFF_SIM_LOCK_DIR` | path | none | C library: lock files by which processes share one instance; without them each has its own |
//! | `METANEFF_SIM_TOUCH_STACK` | bytes, `KiB`, `MiB` | `0` | C library: bytes of its caller's stack that `nrt_execute` touches |
//! | `METANEFF_SIM_DEV_DIR` | path | none | folder whose files `neuron0`, `neuron1`, … that can be opened are the chips that there are |
//! | `NEURON_RT_VISIBLE_CORES` | list, range | all | cores that the process sees: ascending and without gaps, `0,2` and `1,0` are refused |
//! | `NEURON_RT_NUM_CORES` | number | all | how many cores it sees |
//! | `NEURON_RT_VIRTUAL_CORE_SIZE` | `1`, `2` | the instance's | physical cores of a logical one |
//! | `NEURON_LOGICAL_NC_CONFIG` | `1`, `2` | the instance's | the same; the other name wins |
//! | `NEURON_RT_EXEC_TIMEOUT` | seconds | `600` | limit of an execution |
//! | `NEURON_RT_VALIDATE_HASH` | `true`, `false`, `1`, `0` | `false` | compare a NEFF's hash with its data |
//! | `NEURON_RT_ALLOW_LEGACY_NEFF` | `true`, `false`, `1`, `0` | `false` | load a NEFF for another architecture |
//! | `NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS` | number | `0` | C library: executions under way on a core that `nrt_execute` does not wait for; 0 waits |
//! | `NEURON_RT_DBG_DUMP_INPUTS_ON_ERR` | status | none | dump the inputs of executions that end so |
//! | `NEURON_RT_LOG_LEVEL` | `off` (or `none`, `fatal`, `critical`), `error`, `warn` (or `warning`), `info`, `debug`, `trace`, in capitals or not | `error` | C library: what goes to standard error |
//! | `NEURON_RT_DEBUG_STREAM_BUFFER_SIZE` | number | `65536` | C library: events that a debug stream keeps |
//! | `NEURON_RT_INSPECT_OUTPUT_DIR` | path | `./output` | C library: where `nrt_inspect_begin` has traces written |

use std::time::Duration;

use metaneff_hlo::options::{Denormals, DotRounding, NanPolicy, NarrowReduce, OobPolicy, Rewrites};
use metaneff_schema::cores::CoreRange;

use crate::config::{Concurrency, ExtraNames, InputDump, SimBuilder};
use crate::fault::{FaultPlan, parse_status};
use crate::process::LogLevel;
use crate::quantity;

/// Prefix of the simulator's own variables.
pub const PREFIX: &str = "METANEFF_SIM_";

/// A variable whose value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {name}=`{value}`: expected {expected}")]
pub struct VariableError {
    name: String,
    value: String,
    expected: String,
}

impl VariableError {
    /// The variable.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// What a builder becomes, or what was expected of the value.
type Set = fn(SimBuilder, &str) -> Result<SimBuilder, String>;

/// A variable that is read.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    name: &'static str,
    expected: &'static str,
    set: Set,
}

impl Variable {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What its value may be.
    #[must_use]
    pub const fn expected(&self) -> &'static str {
        self.expected
    }
}

const TIME: &str = "a time such as 250us, 50ms or 2s";
const SIZE: &str = "a size such as 1048576, 1MiB or 16GiB";
const SWITCH: &str = "true, false, 1 or 0";

/// Every variable that is read, in the order in which they are applied: of two
/// that set the same, the later one wins.
pub const VARIABLES: &[Variable] = &[
    variable("METANEFF_SIM_INSTANCE", "an instance type", |b, v| {
        let instance = v.parse();
        instance.map(|i| b.instance(i)).map_err(|e| format!("{e}"))
    }),
    variable("METANEFF_SIM_MEMORY", SIZE, |b, v| {
        some(quantity::bytes(v)).map(|n| b.memory_limit(n))
    }),
    variable("METANEFF_SIM_HOST_MEMORY", SIZE, |b, v| {
        some(quantity::bytes(v)).map(|n| b.host_memory_limit(n))
    }),
    variable("METANEFF_SIM_NAN", "ignore, outputs or any", |b, v| {
        let policies = [
            ("ignore", NanPolicy::Ignore),
            ("outputs", NanPolicy::Outputs),
            ("any", NanPolicy::AnyIntermediate),
        ];
        choice(v, &policies).map(|p| b.nan_policy(p))
    }),
    variable("METANEFF_SIM_OOB", "xla or strict", |b, v| {
        let policies = [("xla", OobPolicy::Xla), ("strict", OobPolicy::Strict)];
        choice(v, &policies).map(|p| b.oob_policy(p))
    }),
    variable("METANEFF_SIM_DENORMALS", "ieee or ftz", |b, v| {
        let modes = [("ieee", Denormals::Ieee), ("ftz", Denormals::FlushToZero)];
        choice(v, &modes).map(|m| b.denormals(m))
    }),
    variable("METANEFF_SIM_DOT", "exact or bf16", |b, v| {
        let modes = [("exact", DotRounding::Exact), ("bf16", DotRounding::Bf16)];
        choice(v, &modes).map(|m| b.dot_rounding(m))
    }),
    variable("METANEFF_SIM_REDUCE", "wide or xla", |b, v| {
        let modes = [("wide", NarrowReduce::Wide), ("xla", NarrowReduce::Xla)];
        choice(v, &modes).map(|m| b.narrow_reduce(m))
    }),
    variable("METANEFF_SIM_REWRITES", "none or xla", |b, v| {
        let modes = [("none", Rewrites::None), ("xla", Rewrites::Xla)];
        choice(v, &modes).map(|m| b.rewrites(m))
    }),
    variable("METANEFF_SIM_RNG_SEED", "a number", |b, v| {
        some(v.trim().parse().ok()).map(|seed| b.rng_seed(seed))
    }),
    variable("METANEFF_SIM_COMPUTE_MEMORY", SIZE, |b, v| {
        let bytes = quantity::bytes(v).and_then(|bytes| bytes.try_into().ok());
        some(bytes).map(|n| b.compute_memory_limit(n))
    }),
    variable("METANEFF_SIM_STEPS", "a number", |b, v| {
        some(v.parse().ok()).map(|n| b.step_budget(n))
    }),
    variable("METANEFF_SIM_LATENCY", TIME, |b, v| {
        let latency = b.config().latency;
        some(quantity::duration(v)).map(|t| b.latency(latency.execute(t)))
    }),
    variable("METANEFF_SIM_LOAD_LATENCY", TIME, |b, v| {
        let latency = b.config().latency;
        some(quantity::duration(v)).map(|t| b.latency(latency.load(t)))
    }),
    variable("METANEFF_SIM_TRANSFER_LATENCY", TIME, |b, v| {
        let latency = b.config().latency;
        some(quantity::duration(v)).map(|t| b.latency(latency.transfer(t)))
    }),
    variable("METANEFF_SIM_CONCURRENCY", "shared or exclusive", |b, v| {
        let modes = [
            ("shared", Concurrency::Shared),
            ("exclusive", Concurrency::Exclusive),
        ];
        choice(v, &modes).map(|m| b.concurrency(m))
    }),
    variable("METANEFF_SIM_EXTRA_NAMES", "refuse or ignore", |b, v| {
        let modes = [
            ("refuse", ExtraNames::Refuse),
            ("ignore", ExtraNames::Ignore),
        ];
        choice(v, &modes).map(|m| b.extra_names(m))
    }),
    variable("METANEFF_SIM_FAULTS", "faults", |b, v| {
        let plan = v.parse::<FaultPlan>();
        plan.map(|p| b.faults(p)).map_err(|e| format!("{e}"))
    }),
    variable("METANEFF_SIM_GRAPH_PATH", "folders", |b, v| {
        let folders = std::env::split_paths(v).filter(|p| !p.as_os_str().is_empty());
        let folders = folders.collect();
        Ok(b.process(|p| p.graph_path = folders))
    }),
    variable("METANEFF_SIM_LOCK_DIR", "a path", |b, v| {
        Ok(b.process(|p| p.lock_directory = Some(v.into())))
    }),
    variable("METANEFF_SIM_TOUCH_STACK", SIZE, |b, v| {
        let size = quantity::bytes(v).and_then(|size| usize::try_from(size).ok());
        some(size).map(|size| b.process(|p| p.touched_stack = size))
    }),
    variable(
        "METANEFF_SIM_DEV_DIR",
        "a folder with a file `neuron0`",
        |b, v| {
            let count = crate::devices::count(v.as_ref());
            some(Some(count).filter(|count| *count > 0)).map(|count| b.devices(count))
        },
    ),
    variable(
        "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS",
        "a number",
        |b, v| {
            let limit = v.trim().parse().ok().map(std::num::NonZeroUsize::new);
            some(limit).map(|limit| b.process(|p| p.inflight_limit = limit))
        },
    ),
    variable(
        "NEURON_RT_LOG_LEVEL",
        "off, error, warn, info, debug or trace",
        |b, v| some(LogLevel::named(v)).map(|level| b.process(|p| p.log_level = level)),
    ),
    variable("NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", "a number", |b, v| {
        some(v.trim().parse().ok()).map(|size| b.process(|p| p.debug_events = size))
    }),
    variable("NEURON_RT_INSPECT_OUTPUT_DIR", "a path", |b, v| {
        Ok(b.process(|p| p.inspect_directory = v.into()))
    }),
    variable("NEURON_RT_VISIBLE_CORES", "a list of cores", |b, v| {
        let cores = v.parse::<CoreRange>();
        cores
            .map(|c| b.visible_cores(c))
            .map_err(|e| format!("a list of cores, but {e}"))
    }),
    variable("NEURON_RT_NUM_CORES", "a number", |b, v| {
        some(v.trim().parse().ok()).map(|n| b.core_count(n))
    }),
    variable("NEURON_LOGICAL_NC_CONFIG", "1 or 2", |b, v| {
        some(v.trim().parse().ok()).map(|n| b.virtual_core_size(n))
    }),
    variable("NEURON_RT_VIRTUAL_CORE_SIZE", "1 or 2", |b, v| {
        some(v.trim().parse().ok()).map(|n| b.virtual_core_size(n))
    }),
    variable("NEURON_RT_EXEC_TIMEOUT", "a number of seconds", |b, v| {
        let seconds = some(v.trim().parse().ok());
        seconds.map(|s| b.execution_timeout(Some(Duration::from_secs(s))))
    }),
    variable(
        "METANEFF_SIM_TIMEOUT",
        "a time such as 50ms or 2s, or none",
        |b, v| {
            if v == "none" {
                return Ok(b.execution_timeout(None));
            }
            some(quantity::duration(v)).map(|t| b.execution_timeout(Some(t)))
        },
    ),
    variable("NEURON_RT_VALIDATE_HASH", SWITCH, |b, v| {
        switch(v).map(|on| b.validate_hash(on))
    }),
    variable("NEURON_RT_ALLOW_LEGACY_NEFF", SWITCH, |b, v| {
        switch(v).map(|on| b.allow_legacy_neff(on))
    }),
    variable("NEURON_RT_DBG_DUMP_INPUTS_ON_ERR", "a status", |b, v| {
        some(parse_status(v.trim())).map(|status| b.dump_inputs(status, "."))
    }),
    // Without the runtime's variable there is nothing to dump.
    variable("METANEFF_SIM_DUMP_DIR", "a path", |b, v| {
        Ok(match b.config().input_dump.clone() {
            Some(InputDump { status, .. }) => b.dump_inputs(status, v),
            None => b,
        })
    }),
];

const fn variable(name: &'static str, expected: &'static str, set: Set) -> Variable {
    Variable {
        name,
        expected,
        set,
    }
}

/// The value, or an error that leaves the text to the variable's `expected`.
fn some<T>(value: Option<T>) -> Result<T, String> {
    value.ok_or_else(String::new)
}

fn choice<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == value);
    some(found.map(|(_, choice)| *choice))
}

fn switch(value: &str) -> Result<bool, String> {
    let values = [("true", true), ("1", true), ("false", false), ("0", false)];
    choice(value.trim().to_ascii_lowercase().as_str(), &values)
}

impl SimBuilder {
    /// A builder set up from the process's environment.
    ///
    /// # Errors
    ///
    /// [`VariableError`] for the first variable that cannot be used.
    pub fn from_environment() -> Result<Self, VariableError> {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self::from_variables(std::env::vars_os().map(|(name, value)| (text(name), text(value))))
    }

    /// A builder set up from these variables and their values; others than
    /// those of [`VARIABLES`] do not count.
    ///
    /// # Errors
    ///
    /// [`VariableError`] for the first variable that cannot be used.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_backend_sim::SimBuilder;
    /// use metaneff_binding::Backend;
    ///
    /// let variables = [("METANEFF_SIM_INSTANCE", "inf2.xlarge"), ("NEURON_RT_VISIBLE_CORES", "1")];
    /// let sim = SimBuilder::from_variables(variables)?.build()?;
    /// assert_eq!(sim.info().instance, "inf2.xlarge");
    /// assert_eq!(sim.info().visible_cores, 1);
    ///
    /// let error = SimBuilder::from_variables([("METANEFF_SIM_OBO", "strict")]).unwrap_err();
    /// assert_eq!(error.name(), "METANEFF_SIM_OBO");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_variables<N, V>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, VariableError>
    where
        N: Into<String>,
        V: Into<String>,
    {
        let mut given = std::collections::BTreeMap::new();
        for (name, value) in variables {
            let (name, value) = (name.into(), value.into());
            if VARIABLES.iter().any(|variable| variable.name == name) {
                given.insert(name, value);
            } else if name.starts_with(PREFIX) {
                return Err(VariableError {
                    name,
                    value,
                    expected: "no such variable, for the simulator has none".to_owned(),
                });
            }
        }
        let mut builder = Self::default();
        for variable in VARIABLES {
            // An empty value is how a shell leaves a variable out.
            let Some(value) = given.get(variable.name).filter(|v| !v.is_empty()) else {
                continue;
            };
            builder = (variable.set)(builder, value).map_err(|detail| VariableError {
                name: variable.name.to_owned(),
                value: value.clone(),
                expected: if detail.is_empty() {
                    variable.expected.to_owned()
                } else {
                    detail
                },
            })?;
        }
        Ok(builder)
    }
}

#[cfg(test)]
mod tests {
    use metaneff_schema::nrt::Status;

    use super::*;
    use crate::{Instance, Latency};

    fn set(name: &str, value: &str) -> Result<SimBuilder, VariableError> {
        SimBuilder::from_variables([(name, value)])
    }

    #[test]
    fn the_documented_table_is_the_table() {
        let source = include_str!("environment.rs");
        let documented: Vec<_> = source
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `")?.split_once('`'))
            .map(|(name, _)| name)
            .collect();
        let mut read: Vec<_> = VARIABLES.iter().map(Variable::name).collect();
        let mut sorted = documented.clone();
        read.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(sorted, read);
    }

    #[test]
    fn every_variable_changes_the_configuration() {
        let devices = tempfile::tempdir().unwrap();
        std::fs::write(devices.path().join("neuron0"), "").unwrap();
        let all = [
            ("METANEFF_SIM_INSTANCE", "trn2.3xlarge"),
            ("METANEFF_SIM_MEMORY", "1MiB"),
            ("METANEFF_SIM_HOST_MEMORY", "2MiB"),
            ("METANEFF_SIM_NAN", "any"),
            ("METANEFF_SIM_OOB", "strict"),
            ("METANEFF_SIM_DENORMALS", "ftz"),
            ("METANEFF_SIM_DOT", "bf16"),
            ("METANEFF_SIM_REDUCE", "xla"),
            ("METANEFF_SIM_REWRITES", "xla"),
            ("METANEFF_SIM_RNG_SEED", "18446744073709551615"),
            ("METANEFF_SIM_COMPUTE_MEMORY", "1KiB"),
            ("METANEFF_SIM_STEPS", "1000"),
            ("METANEFF_SIM_LATENCY", "1ms"),
            ("METANEFF_SIM_LOAD_LATENCY", "2ms"),
            ("METANEFF_SIM_TRANSFER_LATENCY", "3ms"),
            ("METANEFF_SIM_CONCURRENCY", "exclusive"),
            ("METANEFF_SIM_EXTRA_NAMES", "ignore"),
            ("METANEFF_SIM_FAULTS", "load@1=fail:4"),
            ("METANEFF_SIM_TIMEOUT", "5s"),
            ("METANEFF_SIM_DUMP_DIR", "dumps"),
            ("METANEFF_SIM_GRAPH_PATH", "one:two"),
            ("METANEFF_SIM_LOCK_DIR", "locks"),
            ("METANEFF_SIM_TOUCH_STACK", "4MiB"),
            ("METANEFF_SIM_DEV_DIR", devices.path().to_str().unwrap()),
            ("NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", "8"),
            ("NEURON_RT_INSPECT_OUTPUT_DIR", "out"),
            ("NEURON_RT_LOG_LEVEL", "INFO"),
            ("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "4"),
            ("NEURON_RT_VISIBLE_CORES", "1-2"),
            ("NEURON_RT_NUM_CORES", "1"),
            ("NEURON_RT_VIRTUAL_CORE_SIZE", "1"),
            ("NEURON_LOGICAL_NC_CONFIG", "2"),
            ("NEURON_RT_EXEC_TIMEOUT", "7"),
            ("NEURON_RT_VALIDATE_HASH", "TRUE"),
            ("NEURON_RT_ALLOW_LEGACY_NEFF", "1"),
            ("NEURON_RT_DBG_DUMP_INPUTS_ON_ERR", "1003"),
        ];
        assert_eq!(all.len(), VARIABLES.len());
        let builder = SimBuilder::from_variables(all).unwrap();
        let topology = builder.topology().unwrap();
        assert_eq!((topology.total, topology.virtual_core_size), (8, 1));
        assert_eq!(topology.visible.indices(), 1..3);
        let config = builder.config();
        assert_eq!(config.instance, Instance::Trn2_3xlarge);
        assert_eq!(config.memory_limit, Some(1 << 20));
        assert_eq!(config.host_memory_limit, 2 << 20);
        assert_eq!(config.numerics.nan_policy, NanPolicy::AnyIntermediate);
        assert_eq!(config.numerics.oob_policy, OobPolicy::Strict);
        assert_eq!(config.numerics.denormals, Denormals::FlushToZero);
        assert_eq!(config.numerics.dot_rounding, DotRounding::Bf16);
        assert_eq!(config.numerics.narrow_reduce, NarrowReduce::Xla);
        assert_eq!(config.numerics.rewrites, Rewrites::Xla);
        assert_eq!(config.numerics.rng_seed, u64::MAX);
        assert_eq!(config.compute_memory_limit, Some(1024));
        assert_eq!(config.step_budget, Some(1000));
        let ms = Duration::from_millis;
        let latency = Latency::NONE.execute(ms(1)).load(ms(2)).transfer(ms(3));
        assert_eq!(config.latency, latency);
        assert_eq!(config.concurrency, Concurrency::Exclusive);
        assert_eq!(config.extra_names, ExtraNames::Ignore);
        assert_eq!(config.faults.faults().len(), 1);
        assert_eq!(config.execution_timeout, Some(Duration::from_secs(5)));
        assert!(config.validate_hash && config.allow_legacy_neff);
        let dump = config.input_dump.clone().unwrap();
        assert_eq!(dump.status, Status::EXEC_COMPLETED_WITH_NUM_ERR);
        assert_eq!(dump.directory.to_str(), Some("dumps"));
        assert_eq!(config.devices, Some(1));
        let process = builder.process_settings();
        assert_eq!(process.graph_path.len(), 2);
        assert_eq!(
            process.lock_directory.as_deref().and_then(|p| p.to_str()),
            Some("locks")
        );
        assert_eq!(process.debug_events, 8);
        assert_eq!(process.inspect_directory.to_str(), Some("out"));
        assert_eq!(process.log_level, LogLevel::Info);
        assert_eq!(process.touched_stack, 4 << 20);
        assert_eq!(process.inflight_limit.map(|n| n.get()), Some(4));
    }

    #[test]
    fn levels_are_known_by_each_documented_name() {
        for (name, level) in [
            ("off", LogLevel::Off),
            ("none", LogLevel::Off),
            ("fatal", LogLevel::Off),
            ("critical", LogLevel::Off),
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warning),
            (" Warning ", LogLevel::Warning),
            ("INFO", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ] {
            let builder = set("NEURON_RT_LOG_LEVEL", name).unwrap();
            assert_eq!(builder.process_settings().log_level, level, "{name}");
        }
        assert_eq!(
            SimBuilder::default().process_settings().log_level,
            LogLevel::Error
        );
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named() {
        for (name, value) in [
            ("METANEFF_SIM_INSTANCE", "trn9"),
            ("METANEFF_SIM_MEMORY", "lots"),
            ("METANEFF_SIM_NAN", "Any"),
            ("METANEFF_SIM_RNG_SEED", "-1"),
            ("METANEFF_SIM_FAULTS", "load@0=fail:4"),
            ("METANEFF_SIM_LATENCY", "5"),
            ("METANEFF_SIM_TIMEOUT", "never"),
            ("METANEFF_SIM_UNKNOWN", "1"),
            ("NEURON_RT_VISIBLE_CORES", "0,2"),
            ("NEURON_RT_NUM_CORES", "-1"),
            ("NEURON_RT_EXEC_TIMEOUT", "1.5"),
            ("NEURON_RT_VALIDATE_HASH", "yes"),
            ("NEURON_RT_DBG_DUMP_INPUTS_ON_ERR", "0"),
            ("NEURON_RT_LOG_LEVEL", "loud"),
        ] {
            let error = set(name, value).unwrap_err();
            assert_eq!((error.name(), error.value()), (name, value));
        }
        let error = set("NEURON_RT_VISIBLE_CORES", "0,2").unwrap_err();
        assert!(error.to_string().contains("`2` leaves a gap"), "{error}");
        let error = set("NEURON_RT_LOG_LEVEL", "loud").unwrap_err();
        assert!(error.to_string().contains("expected off, error"), "{error}");
        // Not ours, and not the runtime's that we know.
        assert!(set("NEURON_RT_STOCHASTIC_ROUNDING_EN", "1").is_ok());
        assert!(set("METANEFF_SIM_OOB", "").is_ok());
    }
}
