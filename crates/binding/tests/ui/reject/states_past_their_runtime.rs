//! States do not outlive their runtime.

use metaneff_binding::testing::{Fake, add_model};
use metaneff_binding::{Core, Runtime};

fn main() {
    let states;
    {
        let runtime = Runtime::new(Fake::new());
        let model = runtime.load(&add_model(), Core::new(0)).unwrap();
        states = model.session().unwrap().zero_states().unwrap();
    }
    drop(states);
}
