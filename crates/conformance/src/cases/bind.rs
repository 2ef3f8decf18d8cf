//! What is refused before the device is asked.

use metaneff_binding::{
    Backend, BindError, Core, DType, HostTensor, Order, Runtime, ValidateError,
};

use crate::case::{Case, Failure, equal, holds, refused};
use crate::models::{Must as _, floats, load, read_floats, run_floats, subtract};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const PAGE: &str = "page 5";
    vec![
        Case::new(
            "bind/name/reversed",
            "names decide, not positions",
            "user need 32",
            reversed,
        ),
        Case::new(
            "bind/name/user_key",
            "an argument's name finds its slot",
            "user need 32",
            keys,
        ),
        Case::new(
            "bind/position/ambiguous",
            "positions alone are refused where inputs could be swapped",
            "user need 32",
            ambiguous,
        ),
        Case::new(
            "bind/dtype/refused",
            "a wrong element type is refused",
            PAGE,
            wrong_dtype,
        ),
        Case::new(
            "bind/shape/refused",
            "a wrong shape is refused",
            "user need 49",
            wrong_shape,
        ),
        Case::new(
            "bind/count/missing",
            "a missing input is named",
            PAGE,
            missing,
        ),
        Case::new(
            "bind/count/duplicate",
            "two tensors for one slot are refused",
            PAGE,
            duplicate,
        ),
        Case::new(
            "bind/slot/unknown",
            "an unknown slot is an error",
            PAGE,
            unknown,
        ),
        Case::new(
            "bind/model/foreign",
            "a tensor of another model is refused and given back",
            "DESIGN, typestate",
            foreign,
        ),
        Case::new(
            "bind/cache/unchanged",
            "a slot whose buffer is unchanged causes no call",
            "page 4.5",
            cached,
        ),
        Case::new(
            "bind/cancel/inputs_back",
            "a cancelled launch gives its inputs back",
            PAGE,
            cancelled,
        ),
    ]
}

fn reversed<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    let difference = run_floats(
        &mut session,
        &[("input1", &[2.0, 4.0]), ("input0", &[5.0, 1.0])],
    )?;
    equal("input0 - input1", difference, vec![3.0, -3.0])
}

fn keys<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    equal("slot of `b`", model.slot("b").must()?.ordinal().index(), 1)?;
    let mut session = model.session().must()?;
    let difference = run_floats(&mut session, &[("b", &[2.0, 4.0]), ("a", &[5.0, 1.0])])?;
    equal("a - b", difference, vec![3.0, -3.0])
}

fn ambiguous<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    let pair = || Ok::<_, Failure>(vec![floats(&[5.0, 1.0])?, floats(&[2.0, 4.0])?]);
    let contract = session.contract().clone();
    let refusal = contract.validate_in_order(pair()?, Order::Unambiguous);
    let rejected = refused("two inputs by position", refusal)?;
    equal("tensors given back", rejected.input().len(), 2)?;
    let confirmed = contract
        .validate_in_order(pair()?, Order::Confirmed)
        .must()?;
    let executed = session.bind(confirmed).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal(
        "input0 - input1",
        read_floats(&outputs, 0)?,
        vec![3.0, -3.0],
    )
}

fn wrong_dtype<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let tensor = HostTensor::from_slice([2], &[1_i32, 2]).must()?;
    let rejected = refused("int32 for f32", model.slot(1).must()?.validate(tensor))?;
    match rejected.reason() {
        ValidateError::DType {
            ordinal,
            name,
            expected,
            found,
            ..
        } => {
            let facts = (ordinal.index(), name.as_str(), *expected, *found);
            equal("the facts", facts, (1, "input1", DType::F32, DType::I32))?;
        }
        other => return Err(Failure::new(format!("expected a type, found {other}"))),
    }
    equal(
        "the tensor",
        rejected.into_input().to_vec::<i32>().must()?,
        vec![1, 2],
    )
}

fn wrong_shape<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    for shape in [vec![1_usize, 2], vec![3], vec![2, 1], vec![]] {
        let count = shape.iter().product();
        let values = vec![1.0_f32; count];
        let tensor = HostTensor::from_vec(shape.as_slice(), values).must()?;
        let rejected = refused("another shape", model.slot(0).must()?.validate(tensor))?;
        match rejected.reason() {
            ValidateError::Shape {
                ordinal,
                expected,
                found,
                ..
            } => {
                equal("ordinal", ordinal.index(), 0)?;
                equal("expected", expected.dims(), &[2])?;
                equal("found", found.dims(), shape.as_slice())?;
            }
            other => return Err(Failure::new(format!("expected a shape, found {other}"))),
        }
    }
    Ok(())
}

fn missing<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    let b = session
        .slot("b")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let rejected = refused("one input of two", session.bind([b]))?;
    match rejected.reason() {
        BindError::Missing(missing) => {
            let names: Vec<_> = missing
                .slots
                .iter()
                .map(|slot| slot.name.as_str())
                .collect();
            equal("what is missing", names, vec!["input0"])?;
        }
        other => {
            return Err(Failure::new(format!(
                "expected what is missing, found {other}"
            )));
        }
    }
    let [b] = rejected.into_input();
    equal("the input", b.to_vec::<f32>().must()?, vec![1.0, 2.0])
}

fn duplicate<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    let one = session
        .slot("a")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let two = session
        .slot("a")
        .must()?
        .validate(floats(&[3.0, 4.0])?)
        .must()?;
    let rejected = refused("one slot twice", session.bind([one, two]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::Duplicate { .. }),
    )
}

fn unknown<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let error = refused("a name that is none", model.slot("c"))?;
    holds("the error names it", error.to_string().contains("`c`"))?;
    refused("an ordinal that is none", model.slot(2)).map(drop)
}

fn foreign<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let one = load(&runtime, &subtract()?)?;
    let two = load(&runtime, &subtract()?)?;
    let mut session = one.session().must()?;
    let a = two
        .slot("a")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let b = one
        .slot("b")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let rejected = refused("a tensor of another model", session.bind([a, b]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::ForeignTensor { .. }),
    )?;
    equal("tensors given back", rejected.into_input().len(), 2)
}

fn cached<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = runtime.load(&subtract()?, Core::new(0)).must()?;
    let mut session = model.session().must()?;
    let inputs: &[(&str, &[f32])] = &[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])];
    run_floats(&mut session, inputs)?;
    let Some(first) = runtime.transfers() else {
        return Ok(());
    };
    run_floats(&mut session, inputs)?;
    let second = runtime.transfers().unwrap_or_default();
    equal(
        "bind calls of the second launch",
        second.binds - first.binds,
        0,
    )
}

fn cancelled<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    let a = session
        .slot("a")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let b = session
        .slot("b")
        .must()?
        .validate(floats(&[3.0, 4.0])?)
        .must()?;
    let [a, _] = session.bind([a, b]).must()?.cancel();
    equal("the first", a.to_vec::<f32>().must()?, vec![1.0, 2.0])
}
