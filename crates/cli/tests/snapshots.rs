//! What every verb prints, over real files: `cmd/*.trycmd`.
//!
//! `TRYCMD=overwrite cargo test -p metaneff-cli --test snapshots` writes them anew.

#[test]
fn every_verb_prints_what_it_should() {
    trycmd::TestCases::new()
        .register_bin(
            "metaneff",
            trycmd::schema::Bin::Path(env!("CARGO_BIN_EXE_metaneff").into()),
        )
        .register_bin(
            "neuronx-cc",
            trycmd::schema::Bin::Path(env!("CARGO_BIN_EXE_neuronx-cc").into()),
        )
        .case("tests/cmd/*.trycmd");
}
