//! The cases, one file a group of groups.

mod bind;
mod execute;
mod load;
mod order;
mod state;
mod tensor;
mod whole;

use metaneff_binding::Backend;

pub use order::order_cases;

use crate::case::Case;

/// Every case, in a fixed order. Ids are unique.
#[must_use]
pub fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut all = execute::cases();
    all.extend(state::cases());
    all.extend(bind::cases());
    all.extend(tensor::cases());
    all.extend(load::cases());
    all.extend(whole::cases());
    all
}
