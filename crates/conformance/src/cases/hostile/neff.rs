//! NEFFs: each gate of the loader, and what is odd and valid.

use bytes::Bytes;
use metaneff_binding::{Backend, LoadRequest};
use metaneff_schema::neff::HEADER_SIZE;
use metaneff_schema::nrt::Status;
use serde_json::json;

use crate::case::{Case, Failure, Setup, equal, refused as must_fail};
use crate::models::subtract;
use crate::package::{KELF, Parts, ROOT, TABLE};
use crate::raw::{CORE, Raw};

const GATES: &str = "NEFF header; user need 31";
const TAR: &str = "NEFF archive; user need 107";
const MANIFESTS: &str = "NEFF manifests; user need 107";
const VARIABLES: &str = "page 8, def.json";
const HASHED: Setup = Setup::ONE_CORE.environment(&[("NEURON_RT_VALIDATE_HASH", "true")]);

/// Files that are refused.
pub(super) fn refused<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new(
            "neff/header/short",
            "fewer bytes than a header are no NEFF",
            GATES,
            |b| refuse(b, original()?.slice(..HEADER_SIZE - 1)),
        ),
        Case::new(
            "neff/header/alone",
            "a header with nothing behind it is refused",
            GATES,
            |b| refuse(b, original()?.slice(..HEADER_SIZE)),
        ),
        Case::new(
            "neff/header/package_version",
            "a package of an unknown kind is refused",
            GATES,
            |b| refuse(b, with_u64(0x00, 3)?),
        ),
        Case::new(
            "neff/header/header_size",
            "a header of another size is refused",
            GATES,
            |b| refuse(b, with_u64(0x08, u64::MAX)?),
        ),
        Case::new(
            "neff/header/data_size",
            "data beyond the file's end is refused",
            GATES,
            |b| refuse(b, with_u64(0x10, u64::MAX)?),
        ),
        Case::new(
            "neff/features/first_unknown",
            "feature 27, the first that is not known, is refused",
            "user need 2",
            |b| {
                refuse_with(
                    b,
                    with_u64(0x220, 1 << 27)?,
                    Status::UNSUPPORTED_NEFF_VERSION,
                )
            },
        ),
        Case::new(
            "neff/features/last_unknown",
            "feature 62, the last that is not known, is refused",
            "user need 2",
            |b| {
                refuse_with(
                    b,
                    with_u64(0x220, 1 << 62)?,
                    Status::UNSUPPORTED_NEFF_VERSION,
                )
            },
        ),
        Case::new(
            "neff/hash/wrong",
            "a wrong hash is refused where hashes are validated",
            "user need 31",
            |b| refuse(b, with_u64(0xac, 0x0123_4567_89ab_cdef)?),
        )
        .with(HASHED),
        Case::new(
            "neff/tar/cut",
            "an archive that ends early is refused",
            TAR,
            |b| {
                let mut file = Parts::new()?.build()?.to_vec();
                file.truncate(HEADER_SIZE + 600);
                let data = (file.len() - HEADER_SIZE) as u64;
                file[0x10..0x18].copy_from_slice(&data.to_le_bytes());
                refuse(b, file.into())
            },
        ),
        Case::new(
            "neff/manifest/no_root",
            "an archive without `neff.json` is refused",
            MANIFESTS,
            |b| refuse(b, Parts::new()?.without(ROOT).build()?),
        ),
        Case::new(
            "neff/manifest/no_kelf",
            "a `neff.json` that names no kelf is refused",
            MANIFESTS,
            |b| {
                let parts = Parts::new()?.edit(ROOT, |root| root["nodes"] = json!([]))?;
                refuse(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/manifest/dangling_kelf",
            "a kelf that is named and absent is refused",
            MANIFESTS,
            |b| refuse(b, Parts::new()?.without(KELF).build()?),
        ),
        Case::new(
            "neff/manifest/no_graph",
            "a kelf without a graph is refused",
            MANIFESTS,
            |b| {
                let parts = Parts::new()?.edit(KELF, |kelf| kelf["graphs"] = json!([]))?;
                refuse(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/manifest/dangling_table",
            "a variable table that is named and absent is refused",
            MANIFESTS,
            |b| refuse(b, Parts::new()?.without(TABLE).build()?),
        ),
        Case::new(
            "neff/manifest/not_json",
            "a manifest that is no JSON is refused",
            MANIFESTS,
            |b| refuse(b, Parts::new()?.with(TABLE, *b"var: {}").build()?),
        ),
        Case::new(
            "neff/manifest/nested",
            "a manifest that nests 100000 deep is refused and not followed",
            "user need 107",
            |b| refuse(b, Parts::new()?.with(KELF, vec![b'['; 100_000]).build()?),
        ),
        Case::new(
            "neff/target/other",
            "a program for another architecture is refused",
            "user need 31",
            |b| refuse(b, for_target("mariana")?),
        ),
        Case::new(
            "neff/table/no_output",
            "a table without an output is refused",
            VARIABLES,
            |b| {
                let parts = Parts::new()?.edit(TABLE, |table| {
                    table["var"]["output0"]["type"] = json!("tmp-buf");
                })?;
                refuse(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/table/gap",
            "ids with a gap are refused",
            VARIABLES,
            |b| refuse(b, numbered("output0", 3)?),
        ),
        Case::new(
            "neff/table/same_id",
            "an id that stands twice is refused",
            VARIABLES,
            |b| refuse(b, numbered("output0", 1)?),
        ),
        Case::new(
            "neff/table/negative_id",
            "a negative id is refused",
            VARIABLES,
            |b| refuse(b, numbered("output0", -1)?),
        ),
        Case::new(
            "neff/table/alignment",
            "an alignment that is no power of two is refused",
            VARIABLES,
            |b| refuse(b, variable("input0", "alignment", 12)?),
        ),
        Case::new(
            "neff/table/size_and_shape",
            "a size that its own shape denies is refused",
            VARIABLES,
            |b| refuse(b, variable("input0", "size", 12)?),
        ),
        Case::new(
            "neff/table/overflow",
            "a shape of more than 64 bits of bytes is refused",
            "user need 30",
            |b| {
                let parts = Parts::new()?.edit(TABLE, |table| {
                    let input = &mut table["var"]["input0"];
                    input["shape"] = json!([1_u64 << 40, 1_u64 << 40]);
                })?;
                refuse(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/table/name_of_no_parameter",
            "an input that the graph does not have is refused",
            "page 4.5, note on names",
            |b| {
                let parts = Parts::new()?.edit(TABLE, |table| {
                    let input = table["var"]["input1"].take();
                    table["var"]["input7"] = input;
                    if let Some(table) = table["var"].as_object_mut() {
                        table.remove("input1");
                    }
                })?;
                refuse(b, parts.build()?)
            },
        ),
    ]
}

/// Files that are odd and run all the same.
pub(super) fn accepted<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new(
            "neff/package/tar",
            "a package without compression is accepted",
            GATES,
            |b| accept(b, Parts::new()?.build()?),
        ),
        Case::new(
            "neff/package/gzip_hash",
            "the MD5 of a compressed package is accepted where hashes are validated",
            "user need 31",
            |b| accept(b, original()?),
        )
        .with(HASHED),
        Case::new(
            "neff/hash/unchecked",
            "a wrong hash does not matter where hashes are not validated",
            "user need 31",
            |b| accept(b, with_u64(0xac, 0x0123_4567_89ab_cdef)?),
        ),
        Case::new(
            "neff/version/minor",
            "any minor version is accepted",
            GATES,
            |b| accept(b, with_u64(0x20, 99)?),
        ),
        Case::new(
            "neff/version/one",
            "an older major version is accepted",
            GATES,
            |b| accept(b, with_u64(0x18, 1)?),
        ),
        Case::new(
            "neff/features/known",
            "features 0 to 7 are accepted",
            "user need 2",
            |b| accept(b, with_u64(0x220, 0xff)?),
        ),
        Case::new(
            "neff/features/last_bit",
            "feature 63 is accepted",
            "user need 2",
            |b| accept(b, with_u64(0x220, 1 << 63)?),
        ),
        Case::new(
            "neff/features/other_major",
            "features of another major version are not looked at",
            "user need 2",
            |b| {
                let mut parts = Parts::new()?;
                parts.header.version = (1, 0);
                parts.header.feature_bits = 1 << 40;
                accept(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/header/empty_name",
            "a header may have no name and no build version",
            GATES,
            |b| {
                let mut parts = Parts::new()?;
                parts.header.name.clear();
                parts.header.build_version.clear();
                accept(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/tar/leading_dot",
            "names may start with `./`",
            TAR,
            |b| {
                let mut parts = Parts::new()?;
                for (name, _) in &mut parts.members {
                    name.insert_str(0, "./");
                }
                accept(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/tar/wavegraph",
            "a wavegraph is passed over, whatever is in it",
            TAR,
            |b| {
                accept(
                    b,
                    Parts::new()?
                        .with("sg00/wavegraph-bin.json", *b"not JSON")
                        .build()?,
                )
            },
        ),
        Case::new(
            "neff/tar/unknown_member",
            "members that nothing names are passed over",
            TAR,
            |b| accept(b, Parts::new()?.with("notes.txt", *b"hello").build()?),
        ),
        Case::new(
            "neff/tar/no_engines",
            "engine files may be absent, for references to them may dangle",
            TAR,
            |b| {
                let mut parts = Parts::new()?;
                parts.members.retain(|(name, _)| !name.ends_with(".bin"));
                accept(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/tar/bytes_behind",
            "bytes behind the data are not looked at",
            GATES,
            |b| {
                let mut file = original()?.to_vec();
                file.extend([0x5a; 4096]);
                accept(b, file.into())
            },
        ),
        Case::new(
            "neff/target/legacy",
            "a program for another architecture is accepted where that is allowed",
            "user need 31",
            |b| accept(b, for_target("mariana")?),
        )
        .with(Setup::ONE_CORE.environment(&[("NEURON_RT_ALLOW_LEGACY_NEFF", "true")])),
        Case::new(
            "neff/target/any",
            "a program for any architecture is accepted",
            "user need 31",
            |b| accept(b, for_target("*")?),
        ),
        Case::new(
            "neff/table/order_of_ids",
            "names decide who is who, ids may stand in any order",
            "page 8",
            |b| {
                let parts = Parts::new()?.edit(TABLE, |table| {
                    table["var"]["input0"]["var_id"] = json!(2);
                    table["var"]["input1"]["var_id"] = json!(0);
                    table["var"]["output0"]["var_id"] = json!(1);
                })?;
                accept(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/table/program_variables",
            "variables of the program's own stand beside the boundary",
            "page 8, kbin_mr_type",
            |b| {
                let parts = Parts::new()?.edit(TABLE, |table| {
                    for (id, kind) in (3_u32..).zip(["state-buffer", "tmp-buf", "pointer", "list"])
                    {
                        table["var"][kind] = json!({"type": kind, "var_id": id, "size": 64});
                    }
                })?;
                accept(b, parts.build()?)
            },
        ),
        Case::new(
            "neff/table/unknown_kind",
            "a variable of an unknown kind is passed over",
            "page 8, def.json",
            |b| {
                let parts = Parts::new()?.edit(TABLE, |table| {
                    table["var"]["later"] = json!({"type": "quantum", "var_id": 3, "size": 64});
                })?;
                accept(b, parts.build()?)
            },
        ),
    ]
}

fn original() -> Result<Bytes, Failure> {
    Ok(subtract()?.neff().clone())
}

fn with_u64(offset: usize, value: u64) -> Result<Bytes, Failure> {
    let mut file = original()?.to_vec();
    file[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    Ok(file.into())
}

fn variable(name: &str, field: &str, value: i64) -> Result<Bytes, Failure> {
    let parts = Parts::new()?.edit(TABLE, |table| table["var"][name][field] = json!(value))?;
    parts.build()
}

fn numbered(name: &str, id: i64) -> Result<Bytes, Failure> {
    variable(name, "var_id", id)
}

fn for_target(target: &str) -> Result<Bytes, Failure> {
    let parts = Parts::new()?.edit(KELF, |kelf| kelf["target"] = json!(target))?;
    parts.build()
}

/// The file must be refused, and leave nothing that a good one trips over.
pub(super) fn refuse_with<B: Backend>(
    backend: B,
    file: Bytes,
    status: Status,
) -> Result<(), Failure> {
    let answer = backend.load(&LoadRequest::new(file).on(CORE));
    let error = must_fail("the file", answer)?;
    equal("call", error.call(), "nrt_load")?;
    equal("status", error.status(), status)?;
    accept(backend, original()?)
}

pub(super) fn refuse<B: Backend>(backend: B, file: Bytes) -> Result<(), Failure> {
    refuse_with(backend, file, Status::INVALID)
}

/// The file must load and compute `input0 - input1`.
pub(super) fn accept<B: Backend>(backend: B, file: Bytes) -> Result<(), Failure> {
    let mut raw = Raw::load(&backend, file)?;
    let result = raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    raw.execute(&backend)?;
    equal(
        "input0 - input1",
        raw.floats(&backend, result)?,
        vec![3.0, -3.0],
    )?;
    raw.close(&backend)
}
