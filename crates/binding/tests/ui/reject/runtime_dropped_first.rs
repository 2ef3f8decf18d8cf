//! A runtime is not dropped before its model.

use metaneff_binding::testing::{Fake, add_model};
use metaneff_binding::{Core, Runtime};

fn main() {
    let runtime = Runtime::new(Fake::new());
    let model = runtime.load(&add_model(), Core::new(0)).unwrap();
    drop(runtime);
    model.session().unwrap();
}
