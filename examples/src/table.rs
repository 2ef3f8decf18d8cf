//! Contracts and counters as tables.

use comfy_table::Table;
use metaneff_binding::{BackendInfo, Contract, Side, Slot, Transfers};

/// One row a slot: side and ordinal, device name, key, role, element type, shape,
/// the slot that shares its buffer, and its number in the NEFF's variable table.
#[must_use]
pub fn contract_table(contract: &Contract) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "slot", "name", "key", "role", "dtype", "shape", "alias", "var_id",
    ]);
    for slot in contract.inputs().iter().chain(contract.outputs()) {
        table.add_row([
            format!("{} {}", slot.side(), slot.ordinal()),
            slot.name().to_owned(),
            key(slot),
            slot.role().to_string(),
            slot.dtype()
                .map_or_else(|| slot.data_type().to_string(), |dtype| dtype.to_string()),
            slot.shape().to_string(),
            alias(slot),
            slot.var_id().to_string(),
        ]);
    }
    table
}

fn key(slot: &Slot) -> String {
    let key = slot.user_input_key().or_else(|| slot.checkpoint_key());
    key.map_or_else(String::new, |key| String::from_utf8_lossy(key).into_owned())
}

fn alias(slot: &Slot) -> String {
    let other = match slot.side() {
        Side::Input => Side::Output,
        Side::Output => Side::Input,
    };
    slot.alias()
        .map_or_else(String::new, |ordinal| format!("{other} {ordinal}"))
}

/// Which backend ran, in one line.
#[must_use]
pub fn describe(info: &BackendInfo) -> String {
    let mut text = format!("backend: {}", info.name);
    for (name, value) in [
        ("instance", &info.instance),
        ("version", &info.version),
        ("at", &info.location),
    ] {
        if !value.is_empty() {
            text.push_str(&format!(", {name} {value}"));
        }
    }
    let device = if info.device {
        "on a device"
    } else {
        "no device"
    };
    let cores = (info.visible_cores, info.total_cores);
    text.push_str(&format!(
        ", {} of {} cores visible, {device}",
        cores.0, cores.1
    ));
    text
}

/// What a backend has moved, as differences between two readings.
#[must_use]
pub fn transfers_table(rows: &[(&str, Transfers, Transfers)]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "during",
        "host → device",
        "device → host",
        "device → device",
        "allocations",
        "binds",
        "executions",
    ]);
    for (what, before, after) in rows {
        table.add_row([
            (*what).to_owned(),
            format!("{} B", after.host_to_device - before.host_to_device),
            format!("{} B", after.device_to_host - before.device_to_host),
            format!("{} B", after.device_to_device - before.device_to_device),
            (after.allocations - before.allocations).to_string(),
            (after.binds - before.binds).to_string(),
            (after.executions - before.executions).to_string(),
        ]);
    }
    table
}
