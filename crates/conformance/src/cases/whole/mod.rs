//! The binding as a whole: roles, batches, ranks, buckets, load policies,
//! asynchronous serving and edits.

mod batch;
mod buckets;
mod edit;
mod policy;
mod roles;
mod serve;
mod spmd;

use metaneff_binding::Backend;

use crate::case::Case;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut all = roles::cases();
    all.extend(batch::cases());
    all.extend(spmd::cases());
    all.extend(buckets::cases());
    all.extend(policy::cases());
    all.extend(edit::cases());
    all.extend(serve::cases());
    all
}
