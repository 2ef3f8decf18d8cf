//! The cases, one file a group of groups.

mod bind;
mod checkpoint;
mod deferred;
mod dtypes;
mod dynamic;
mod execute;
mod fault;
mod hostile;
mod info;
mod life;
mod load;
mod order;
mod place;
mod ranks;
mod slots;
mod state;
mod status;
mod tensor;
mod threads;
mod whole;
mod wire;

use metaneff_binding::Backend;

pub use order::order_cases;

use crate::case::Case;

/// Every case, in a fixed order. Ids are unique.
#[must_use]
pub fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut all = wire::cases();
    all.extend(dtypes::cases());
    all.extend(slots::cases());
    all.extend(checkpoint::cases());
    all.extend(bind::cases());
    all.extend(execute::cases());
    all.extend(state::cases());
    all.extend(dynamic::cases());
    all.extend(ranks::cases());
    all.extend(tensor::cases());
    all.extend(place::cases());
    all.extend(load::cases());
    all.extend(deferred::cases());
    all.extend(hostile::cases());
    all.extend(life::cases());
    all.extend(info::cases());
    all.extend(status::cases());
    all.extend(fault::cases());
    all.extend(threads::cases());
    all.extend(whole::cases());
    all
}
