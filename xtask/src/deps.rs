//! `cargo xtask deps`: the arrows between the crates point one way only.

use std::process::ExitCode;

use serde_json::Value;

use crate::Outcome;
use crate::shell::{self, cargo};

/// For each package, the packages of this workspace that it may depend on.
/// Development dependencies are free: tests look at a crate from outside.
const ALLOWED: &[(&str, &[&str])] = &[
    ("metaneff-schema", &[]),
    ("metaneff-hlo", &["metaneff-schema"]),
    ("metaneff-binding", &["metaneff-schema"]),
    (
        "metaneff-backend-nrt",
        &["metaneff-binding", "metaneff-schema"],
    ),
    (
        "metaneff-backend-sim",
        &["metaneff-binding", "metaneff-hlo", "metaneff-schema"],
    ),
    (
        "metaneff-libnrt-sim",
        &[
            "metaneff-backend-sim",
            "metaneff-binding",
            "metaneff-schema",
        ],
    ),
    (
        "metaneff-conformance",
        &["metaneff-binding", "metaneff-schema"],
    ),
    ("metaneff-torch", &["metaneff-binding", "metaneff-schema"]),
    (
        "metaneff-examples",
        &[
            "metaneff-binding",
            "metaneff-schema",
            "metaneff-backend-nrt",
            "metaneff-backend-sim",
        ],
    ),
    (
        "xtask",
        &[
            "metaneff-backend-nrt",
            "metaneff-backend-sim",
            "metaneff-binding",
            "metaneff-conformance",
            "metaneff-hlo",
            "metaneff-schema",
        ],
    ),
];

/// Packages from outside that only some may use.
const RESERVED: &[(&str, &[&str])] = &[
    ("libloading", &["metaneff-backend-nrt"]),
    ("tch", &["metaneff-torch"]),
    ("torch-sys", &["metaneff-torch"]),
];

pub(crate) fn run() -> Outcome {
    let output = cargo(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let findings = violations(&serde_json::from_slice(&output.stdout)?);
    for finding in &findings {
        shell::complain(finding);
    }
    if findings.is_empty() {
        shell::say("dependencies point one way only");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

fn violations(metadata: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    let packages = metadata["packages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if packages.is_empty() {
        findings.push("cargo metadata names no package".to_owned());
    }
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ALLOWED.iter().find(|(package, _)| *package == name) else {
            findings.push(format!(
                "`{name}` has no row in the table of allowed dependencies"
            ));
            continue;
        };
        for dependency in package["dependencies"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
        {
            let target = dependency["name"].as_str().unwrap_or_default();
            if dependency["kind"].as_str() == Some("dev") {
                continue;
            }
            let ours = ALLOWED.iter().any(|(package, _)| *package == target);
            if ours && !allowed.contains(&target) {
                findings.push(format!("`{name}` may not depend on `{target}`"));
            }
            let reserved = RESERVED.iter().find(|(package, _)| *package == target);
            if reserved.is_some_and(|(_, users)| !users.contains(&name)) {
                findings.push(format!("`{name}` may not use `{target}`"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, target: &str, kind: Option<&str>) -> Value {
        json!({"packages": [{"name": name, "dependencies": [{"name": target, "kind": kind}]}]})
    }

    #[test]
    fn an_arrow_against_the_order_is_found() {
        let found = violations(&package("metaneff-schema", "metaneff-hlo", None));
        assert_eq!(
            found,
            ["`metaneff-schema` may not depend on `metaneff-hlo`"]
        );
    }

    #[test]
    fn development_dependencies_are_free() {
        assert!(violations(&package("metaneff-schema", "metaneff-hlo", Some("dev"))).is_empty());
    }

    #[test]
    fn reserved_packages_and_unknown_members_are_found() {
        let found = violations(&package("metaneff-hlo", "libloading", None));
        assert_eq!(found, ["`metaneff-hlo` may not use `libloading`"]);
        assert_eq!(violations(&package("stray", "bytes", None)).len(), 1);
        assert_eq!(violations(&json!({"packages": []})).len(), 1);
    }
}
