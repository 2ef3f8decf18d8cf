//! Files that are damaged, odd, or made to do harm.

mod graph;
mod metaneff;
mod neff;

use metaneff_binding::Backend;

use crate::case::Case;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut cases = metaneff::cases();
    cases.extend(metaneff::aliases());
    cases.extend(neff::refused());
    cases.extend(neff::accepted());
    cases.extend(graph::cases());
    cases
}
