//! The cases on the simulator, and the harness on cases of its own.

use metaneff_backend_sim::{Sim, SimBuilder};
use metaneff_conformance::{Expectation, Setup, Target, Unavailable, Verdict, cases, run};

struct Simulator;

impl Target for Simulator {
    type Backend = Sim;

    fn name(&self) -> &'static str {
        "sim"
    }

    fn open(&self, setup: &Setup) -> Result<Sim, Unavailable> {
        let unavailable = |error: String| Unavailable::new(error);
        SimBuilder::from_variables(setup.variables())
            .map_err(|error| unavailable(error.to_string()))?
            .build()
            .map_err(|error| unavailable(error.to_string()))
    }
}

#[test]
fn every_case_holds_on_the_simulator() {
    let report = run(&Simulator, &cases(), &[], |_| true);
    let failed: Vec<_> = report
        .rows
        .iter()
        .filter(|row| row.verdict != Verdict::Passed)
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn ids_are_unique_and_well_formed() {
    let mut ids: Vec<_> = cases::<Sim>().iter().map(|case| case.id).collect();
    assert!(ids.iter().all(|id| id.split('/').count() == 3), "{ids:?}");
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn expectations_are_held_to_account() {
    let expectations = [
        Expectation::new(
            "sim",
            "execute/order/operands",
            "",
            "it passes, so this is stale",
        ),
        Expectation::new("sim", "no/such/case", "", "it names nothing"),
    ];
    let report = run(&Simulator, &cases(), &expectations, |id| {
        id == "execute/order/operands"
    });
    assert!(matches!(
        report.rows[0].verdict,
        Verdict::UnexpectedPass { .. }
    ));
    assert_eq!(report.stale_expectations.len(), 1);
    assert!(!report.is_success());
    assert_eq!(report.summary(), "0 passed, 2 failed");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["rows"][0]["verdict"], "unexpected_pass");
}
