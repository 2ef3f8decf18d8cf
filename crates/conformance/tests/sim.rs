//! The cases on the simulator, and the harness on cases of its own.

use metaneff_backend_sim::{Sim, SimBuilder};
use metaneff_conformance::{
    Case, Expectation, Failure, Setup, Target, Unavailable, Verdict, cases, run,
};

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

/// Cases of the harness's own: one of each outcome, and one behind them.
fn own_cases() -> Vec<Case<Sim>> {
    vec![
        Case::new("own/case/fails", "fails", "here", |_| {
            Err(Failure::new("found 3, expected 4"))
        }),
        Case::new("own/case/panics", "panics", "here", |_| panic!("no {}", 5)),
        Case::new("own/case/passes", "passes", "here", |_| Ok(())),
        Case::new("own/case/unsupported", "is not run", "here", |_| Ok(()))
            .with(Setup::ONE_CORE.environment(&[("METANEFF_SIM_NO_SUCH", "1")])),
        Case::new("own/case/last", "passes", "here", |_| Ok(())),
    ]
}

fn verdicts(expectations: &[Expectation]) -> Vec<&'static str> {
    let report = run(&Simulator, &own_cases(), expectations, |_| true);
    let words = report.rows.iter().map(|row| row.verdict.word());
    words.collect()
}

#[test]
fn every_case_runs_whatever_came_of_those_before() {
    let report = run(&Simulator, &own_cases(), &[], |_| true);
    let reasons: Vec<_> = report.rows.iter().map(|row| row.verdict.reason()).collect();
    assert!(
        reasons[0].starts_with("found 3, expected 4 ("),
        "{reasons:?}"
    );
    assert!(reasons[0].contains("sim.rs:"), "{reasons:?}");
    assert_eq!(reasons[1], "panicked: no 5");
    assert!(reasons[3].contains("METANEFF_SIM_NO_SUCH"), "{reasons:?}");
    assert_eq!(
        verdicts(&[]),
        ["FAILED", "FAILED", "passed", "unsupported", "passed"]
    );
    assert_eq!(report.summary(), "2 passed, 2 failed, 1 unsupported");
    assert!(!report.is_success());
}

#[test]
fn an_expectation_is_about_one_failure_and_no_other() {
    let of = |case, message| Expectation::new("sim", case, message, "a reason");
    let expected = [
        of("own/case/fails", "found 3"),
        of("own/case/panics", "no 5"),
    ];
    assert_eq!(
        verdicts(&expected)[..3],
        ["expected failure", "expected failure", "passed"]
    );
    let report = run(&Simulator, &own_cases(), &expected, |_| true);
    assert!(report.is_success());

    // Another message, another target, a pass.
    assert_eq!(verdicts(&[of("own/case/fails", "found 4")])[0], "FAILED");
    let other = Expectation::new("nrt", "own/case/fails", "", "a reason");
    assert_eq!(verdicts(&[other])[0], "FAILED");
    let stale = [of("own/case/last", "")];
    assert_eq!(verdicts(&stale)[4], "UNEXPECTED PASS");
    assert!(!run(&Simulator, &own_cases()[2..], &stale, |_| true).is_success());
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
