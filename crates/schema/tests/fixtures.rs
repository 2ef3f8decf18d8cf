//! The fixtures are what their description says, byte for byte.

mod producers;

use std::path::Path;

use metaneff_schema::decode_metaneff;
use prost::Message as _;

#[test]
fn every_fixture_is_the_message_that_is_described() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for fixture in producers::fixtures() {
        let file = folder.join(fixture.name).with_extension("metaneff");
        let bytes = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert_eq!(bytes, fixture.message.encode_to_vec(), "{}", fixture.name);
        assert_eq!(
            decode_metaneff(bytes).unwrap(),
            fixture.message,
            "{}",
            fixture.name
        );
        let row = format!("| `{}.metaneff` | {} |", fixture.name, fixture.about);
        assert!(
            readme.contains(&row),
            "README.md does not describe {}",
            fixture.name
        );
    }
}
