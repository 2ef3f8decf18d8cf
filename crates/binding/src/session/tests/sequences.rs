//! Random sequences of steps lose nothing and leak nothing.

use proptest::prelude::*;

use super::*;
use crate::{Argument, BoundTensor, Model, States};

/// One step of a sequence over two sessions of one model.
#[derive(Clone, Debug)]
enum Step {
    /// Launch with a host tensor for the cache.
    Host { session: bool, value: i8 },
    /// Launch with the cache that came back, where there is one.
    Device { session: bool, value: i8 },
    /// Let the call after so many fail.
    Fail(u64),
    /// Drop the cache that came back.
    Forget,
    /// Start over with zero states.
    Reset,
    /// Replace a session.
    Renew(bool),
    /// Replace the weight.
    Replace(i8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<bool>(), -3_i8..9).prop_map(|(session, value)| Step::Host { session, value }),
        4 => (any::<bool>(), -3_i8..9).prop_map(|(session, value)| Step::Device { session, value }),
        2 => (0_u64..9).prop_map(Step::Fail),
        1 => Just(Step::Forget),
        1 => Just(Step::Reset),
        1 => any::<bool>().prop_map(Step::Renew),
        2 => (-3_i8..9).prop_map(Step::Replace),
    ];
    prop::collection::vec(step, 0..40)
}

/// The state is a running sum of `input0`; the cache `input2` counts launches; the
/// weight `input3` is the output.
fn program(launch: &mut Launch) {
    let x = launch.f32s("input0");
    let sum = add(&x, &launch.f32s("input1"));
    let count = add(&launch.f32s("input2"), &[1.0, 1.0]);
    launch.set_f32s("output0", &launch.f32s("input3"));
    launch.set_f32s("output1", &sum);
    launch.set_f32s("output2", &count);
    if x[0] < 0.0 {
        launch.status = Status::EXEC_OOB;
    }
}

fn artifact() -> Artifact {
    model(&contract(
        &[(USER, &[2]), (STATE, &[2]), (LEGACY, &[2]), (WEIGHT, &[2])],
        &[&[2], &[2], &[2]],
        &[(1, 1), (2, 2)],
        false,
    ))
    .unwrap()
}

fn weight(model: &Model<'_, Fake>, value: f32) -> Vec<Tensor<Validated<'static>>> {
    let slot = model.slot(3).unwrap();
    vec![slot.validate(host(&[value; 2])).unwrap()]
}

/// Two sessions with one sequence of states and one cache between them, and what
/// must be in both.
struct World<'rt> {
    sessions: [Session<'rt, Fake>; 2],
    states: States<'rt, Fake>,
    cache: Option<BoundTensor<'rt, Fake>>,
    sum: f32,
    count: f32,
    weight: f32,
}

impl<'rt> World<'rt> {
    fn launch(&mut self, session: bool, value: i8, on_device: bool) {
        let session = &mut self.sessions[usize::from(session)];
        let value = f32::from(value);
        let x = Argument::Host(input(session, 0, &[value, 0.0]));
        let states = std::mem::replace(&mut self.states, States::from(()));
        if !on_device {
            self.cache = None;
        }
        let cache = match self.cache.take() {
            Some(cache) => Argument::Device(cache),
            None => {
                self.count = 0.0;
                Argument::Host(input(session, 2, &[0.0, 0.0]))
            }
        };
        let arguments = match session.bind([x, cache]) {
            Ok(ready) => match ready.execute(states) {
                Ok(executed) => {
                    let (mut outputs, states) = executed.tolerate_nan().into_parts();
                    // The read may be the call that fails.
                    if let Ok(weight) = outputs.get(0).unwrap().to_vec::<f32>() {
                        assert_eq!(weight, [self.weight; 2]);
                    }
                    self.cache = Some(outputs.take(2).unwrap());
                    self.states = states;
                    self.sum += value;
                    self.count += 1.0;
                    return;
                }
                Err(failed) => {
                    let (arguments, states) = failed.into_inputs();
                    self.states = states;
                    arguments
                }
            },
            Err(rejected) => {
                self.states = states;
                rejected.into_input()
            }
        };
        let [x, cache] = arguments;
        assert!(matches!(x, Argument::Host(x) if x.to_vec::<f32>().unwrap() == [value, 0.0]));
        if let Argument::Device(cache) = cache {
            self.cache = Some(cache);
        }
    }

    fn check(&self) {
        let sum = self.states.get(1).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(sum, [self.sum, 0.0]);
        if let Some(cache) = &self.cache {
            assert_eq!(cache.to_vec::<f32>().unwrap(), [self.count; 2]);
        }
    }

    fn step(&mut self, step: &Step, fake: &Fake, model: &Model<'rt, Fake>) {
        match *step {
            Step::Host { session, value } => self.launch(session, value, false),
            Step::Device { session, value } => self.launch(session, value, true),
            Step::Fail(calls) => fake.fail_after(calls, Status::FAILURE),
            Step::Forget => self.cache = None,
            Step::Reset => {
                if let Ok(states) = self.sessions[0].zero_states() {
                    self.states = states;
                    self.sum = 0.0;
                }
            }
            Step::Renew(session) => {
                if let Ok(renewed) = model.session() {
                    self.sessions[usize::from(session)] = renewed;
                }
            }
            Step::Replace(value) => {
                let value = f32::from(value);
                match model.replace_weights(weight(model, value)) {
                    Ok(()) => self.weight = value,
                    Err(rejected) => {
                        let given = rejected.into_input();
                        assert_eq!(given[0].to_vec::<f32>().unwrap(), [value; 2]);
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nothing_leaks(steps in steps()) {
        let (fake, runtime) = runtime(program);
        let model = runtime.load(&artifact(), core()).unwrap();
        model.load_weights(weight(&model, 5.0)).unwrap();
        let sessions = [model.session().unwrap(), model.session().unwrap()];
        let states = sessions[0].zero_states().unwrap();
        let mut world = World { sessions, states, cache: None, sum: 0.0, count: 0.0, weight: 5.0 };
        for step in &steps {
            world.step(step, &fake, &model);
            if !matches!(step, Step::Fail(_)) {
                fake.recover();
                world.check();
            }
        }
        drop(world);
        drop(model);
        prop_assert!(fake.live().is_empty());
    }
}
