//! Placement, slices, copies and sets, at the level of the calls themselves.

use metaneff_binding::{Backend, Core, Placement};
use metaneff_schema::nrt::Status;
use metaneff_schema::xla::PrimitiveType::F32;

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::graph::Graph;
use crate::models::pack;
use crate::raw::{CORE, Raw, allocate, bytes_of, floats_of, invalid, read};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut cases = placed();
    cases.extend(sliced());
    cases.extend(sets());
    cases
}

fn placed<B: Backend>() -> Vec<Case<B>> {
    const NEED: &str = "user need 131";
    vec![
        Case::new(
            "place/host/bound",
            "a model reads a host tensor and writes one",
            NEED,
            |b| bound(b, Placement::Host),
        ),
        Case::new(
            "place/virtual/bound",
            "a model reads a virtual tensor and writes one",
            NEED,
            |b| bound(b, Placement::Virtual),
        ),
        Case::new(
            "place/host/counted_apart",
            "host tensors take no device memory",
            NEED,
            |b| uncounted(b, Placement::Host),
        ),
        Case::new(
            "place/virtual/counted_apart",
            "virtual tensors take no device memory",
            NEED,
            |b| uncounted(b, Placement::Virtual),
        ),
        Case::new(
            "place/host/copied",
            "copies go from host to device and back",
            "nrt.h, nrt_tensor_copy",
            host_and_device,
        ),
        Case::new(
            "place/host/other_core",
            "a host tensor of one core is copied to device memory of another",
            "nrt.h, nrt_tensor_copy",
            host_to_other_core,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "place/host/empty",
            "a host tensor of 0 bytes is refused as a device tensor is",
            "user needs 4, 43",
            |b| {
                invalid("host, 0 bytes", b.allocate(Placement::Host, CORE, 0, c"t"))?;
                invalid(
                    "virtual, 0 bytes",
                    b.allocate(Placement::Virtual, CORE, 0, c"t"),
                )
            },
        ),
        Case::new(
            "place/device/last_core",
            "every visible core has memory, and none behind it",
            "user need 4",
            last_core,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "place/device/too_large",
            "more bytes than an address space are refused and not allocated",
            "user need 30",
            too_large,
        ),
        Case::new(
            "place/name/empty",
            "a tensor needs no name",
            "nrt.h, nrt_tensor_allocate",
            |b| {
                let tensor = b.allocate(Placement::Device, CORE, 1, c"")?;
                b.write(&tensor, 0, &[7])?;
                equal("contents", read(&b, &tensor)?, vec![7])?;
                b.free(tensor);
                Ok(())
            },
        ),
        Case::new(
            "place/name/same",
            "two tensors may have one name",
            "nrt.h, nrt_tensor_allocate",
            |b| {
                let (one, two) = (allocate(&b, 1)?, allocate(&b, 1)?);
                b.write(&one, 0, &[1])?;
                b.write(&two, 0, &[2])?;
                equal("the first", read(&b, &one)?, vec![1])?;
                b.free(one);
                equal("the second", read(&b, &two)?, vec![2])?;
                b.free(two);
                Ok(())
            },
        ),
    ]
}

fn sliced<B: Backend>() -> Vec<Case<B>> {
    const HEADER: &str = "nrt.h, nrt_tensor_allocate_slice";
    vec![
        Case::new(
            "slice/of_slice/offsets",
            "offsets of slices add up",
            HEADER,
            of_slice,
        ),
        Case::new(
            "slice/whole/same_bytes",
            "a slice may be the whole tensor",
            HEADER,
            whole,
        ),
        Case::new(
            "slice/overlap/shared",
            "slices may overlap and see each other's bytes",
            HEADER,
            overlap,
        ),
        Case::new(
            "slice/memory/none",
            "a slice takes no memory of its own",
            HEADER,
            no_memory,
        ),
        Case::new(
            "slice/memory/kept",
            "memory is in use until the last slice is freed",
            "nrt.h; public clients of the runtime",
            kept,
        ),
        Case::new(
            "slice/bound/input",
            "a slice is an input of its own size",
            "page 4.5, CreateSlice",
            bound_input,
        ),
        Case::new(
            "slice/bound/output",
            "a result lands in the slice and nowhere else",
            "page 4.5, CreateSlice",
            bound_output,
        ),
        Case::new(
            "slice/bound/both_inputs",
            "two slices of one tensor are two inputs",
            HEADER,
            both_inputs,
        ),
        Case::new(
            "slice/bound/in_and_out",
            "input and output may be the same slice",
            "nrt.h; public clients of the runtime",
            in_and_out,
        ),
        Case::new(
            "slice/bound/shifted",
            "inputs are read before outputs are written, also where they overlap",
            "nrt.h; public clients of the runtime",
            shifted,
        ),
        Case::new(
            "slice/copy/within",
            "a copy within one tensor may overlap",
            "nrt.h, nrt_tensor_copy",
            copy_within,
        ),
        Case::new(
            "slice/host/shared",
            "a slice of a host tensor shares its bytes",
            "user need 131",
            host_slice,
        ),
    ]
}

fn sets<B: Backend>() -> Vec<Case<B>> {
    const SETS: &str = "nrt.h, tensor sets";
    vec![
        Case::new(
            "set/size/short",
            "a tensor that is shorter than its slot is refused",
            "page 4.1, byte size",
            |b| wrong_size(b, 4),
        ),
        Case::new(
            "set/size/long",
            "a tensor that is longer than its slot is refused",
            "page 4.1, byte size",
            |b| wrong_size(b, 12),
        ),
        Case::new(
            "set/missing/output",
            "an execution without its output is refused",
            SETS,
            missing_output,
        ),
        Case::new(
            "set/name/extra",
            "a name that the model does not have is refused",
            "page 4.5, note on names",
            |b| extra(b, true),
        ),
        Case::new(
            "set/name/extra_ignored",
            "a name that the model does not have is passed over where that is asked for",
            "page 4.5, note on names",
            |b| extra(b, false),
        )
        .with(Setup::ONE_CORE.environment(&[("METANEFF_SIM_EXTRA_NAMES", "ignore")])),
        Case::new(
            "set/name/too_long",
            "a name of 256 bytes is refused, and the set stays as it was",
            "nrt.h, NRT_TENSOR_NAME_MAX",
            too_long,
        ),
        Case::new(
            "set/share/models",
            "two models may execute with the same sets",
            SETS,
            shared_sets,
        ),
        Case::new(
            "set/alias/two_inputs",
            "one tensor may be two inputs",
            "nrt.h; public clients of the runtime",
            two_inputs,
        ),
        Case::new(
            "set/alias/two_outputs",
            "one tensor is not two outputs",
            "user need 53",
            two_outputs,
        ),
        Case::new(
            "set/alias/exchange",
            "outputs may take each other's inputs",
            "page 4.6",
            exchange,
        ),
        Case::new(
            "set/destroy/empty",
            "an empty set may be destroyed",
            SETS,
            |b| {
                let set = b.tensor_set()?;
                b.destroy_set(set);
                Ok(())
            },
        ),
        Case::new(
            "set/rebind/after_launch",
            "the next launch sees what was bound since",
            "page 4.5, set_input",
            rebind,
        ),
    ]
}

fn bound<B: Backend>(backend: B, placement: Placement) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    for values in [[5.0, 1.0], [2.0, 4.0], [0.0, 0.0]] {
        let tensor = backend.allocate(placement, CORE, 8, c"t")?;
        backend.write(&tensor, 0, &bytes_of(&values))?;
        raw.adopt(tensor);
    }
    raw.input(&backend, c"input0", 0)?;
    raw.input(&backend, c"input1", 1)?;
    raw.output(&backend, 2)?;
    raw.execute(&backend)?;
    equal("input0 - input1", raw.floats(&backend, 2)?, vec![3.0, -3.0])?;
    raw.close(&backend)
}

fn uncounted<B: Backend>(backend: B, placement: Placement) -> Result<(), Failure> {
    let before = backend.memory_stats(CORE)?.used;
    let tensor = backend.allocate(placement, CORE, 1 << 16, c"t")?;
    equal(
        "device memory in use",
        backend.memory_stats(CORE)?.used,
        before,
    )?;
    backend.free(tensor);
    Ok(())
}

fn host_and_device<B: Backend>(backend: B) -> Result<(), Failure> {
    let host = backend.allocate(Placement::Host, CORE, 4, c"h")?;
    let device = allocate(&backend, 4)?;
    backend.write(&host, 0, &[1, 2, 3, 4])?;
    backend.copy(&host, 0, &device, 0, 4)?;
    equal("on the device", read(&backend, &device)?, vec![1, 2, 3, 4])?;
    backend.write(&device, 1, &[9])?;
    backend.copy(&device, 1, &host, 3, 1)?;
    equal("on the host", read(&backend, &host)?, vec![1, 2, 3, 9])?;
    backend.free(host);
    backend.free(device);
    Ok(())
}

fn host_to_other_core<B: Backend>(backend: B) -> Result<(), Failure> {
    let host = backend.allocate(Placement::Host, CORE, 4, c"h")?;
    let device = backend.allocate(Placement::Device, Core::new(1), 4, c"d")?;
    backend.write(&host, 0, &[1, 2, 3, 4])?;
    backend.copy(&host, 0, &device, 0, 4)?;
    equal("on core 1", read(&backend, &device)?, vec![1, 2, 3, 4])?;
    backend.free(host);
    backend.free(device);
    Ok(())
}

fn last_core<B: Backend>(backend: B) -> Result<(), Failure> {
    let on = |core| backend.allocate(Placement::Device, Core::new(core), 4, c"t");
    for core in [0, 1] {
        backend.free(on(core)?);
    }
    invalid("core 2 of 2", on(2))?;
    invalid("the largest core", on(u32::MAX))
}

fn too_large<B: Backend>(backend: B) -> Result<(), Failure> {
    for size in [usize::MAX, isize::MAX.cast_unsigned(), 1 << 50] {
        let error = refused("more than there is", allocate(&backend, size))?;
        holds(
            &format!("{} is about memory", error.status()),
            matches!(
                error.status(),
                Status::RESOURCE | Status::FAIL_HOST_MEM_ALLOC | Status::INVALID
            ),
        )?;
    }
    let small = allocate(&backend, 4)?;
    backend.free(small);
    Ok(())
}

fn of_slice<B: Backend>(backend: B) -> Result<(), Failure> {
    let parent = allocate(&backend, 10)?;
    backend.write(&parent, 0, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])?;
    let middle = backend.slice(&parent, 2, 6, c"m")?;
    let inner = backend.slice(&middle, 3, 2, c"i")?;
    equal("the inner slice", read(&backend, &inner)?, vec![5, 6])?;
    invalid(
        "beyond the middle slice",
        backend.slice(&middle, 5, 2, c"x"),
    )?;
    backend.free(middle);
    backend.free(parent);
    equal("the inner slice alone", read(&backend, &inner)?, vec![5, 6])?;
    backend.free(inner);
    Ok(())
}

fn whole<B: Backend>(backend: B) -> Result<(), Failure> {
    let parent = allocate(&backend, 4)?;
    let slice = backend.slice(&parent, 0, 4, c"s")?;
    backend.write(&slice, 0, &[1, 2, 3, 4])?;
    equal("the parent", read(&backend, &parent)?, vec![1, 2, 3, 4])?;
    let last = backend.slice(&parent, 3, 1, c"l")?;
    equal("the last byte", read(&backend, &last)?, vec![4])?;
    for tensor in [parent, slice, last] {
        backend.free(tensor);
    }
    Ok(())
}

fn overlap<B: Backend>(backend: B) -> Result<(), Failure> {
    let parent = allocate(&backend, 6)?;
    let left = backend.slice(&parent, 0, 4, c"l")?;
    let right = backend.slice(&parent, 2, 4, c"r")?;
    backend.write(&left, 2, &[7, 8])?;
    equal("the right slice", read(&backend, &right)?, vec![7, 8, 0, 0])?;
    for tensor in [parent, left, right] {
        backend.free(tensor);
    }
    Ok(())
}

fn no_memory<B: Backend>(backend: B) -> Result<(), Failure> {
    let parent = allocate(&backend, 4096)?;
    let before = backend.memory_stats(CORE)?.used;
    let slice = backend.slice(&parent, 0, 2048, c"s")?;
    equal("memory in use", backend.memory_stats(CORE)?.used, before)?;
    backend.free(slice);
    equal("memory in use", backend.memory_stats(CORE)?.used, before)?;
    backend.free(parent);
    Ok(())
}

fn kept<B: Backend>(backend: B) -> Result<(), Failure> {
    let before = backend.memory_stats(CORE)?.used;
    let parent = allocate(&backend, 4096)?;
    let slice = backend.slice(&parent, 0, 1, c"s")?;
    backend.free(parent);
    holds(
        "the memory is in use",
        backend.memory_stats(CORE)?.used >= before + 4096,
    )?;
    backend.free(slice);
    equal("memory in use", backend.memory_stats(CORE)?.used, before)
}

/// A tensor of four floats and its two halves, as the first three of `raw`.
fn halves<B: Backend>(raw: &mut Raw<B>, backend: &B, values: [f32; 4]) -> Result<(), Failure> {
    let parent = allocate(backend, 16)?;
    backend.write(&parent, 0, &bytes_of(&values))?;
    let left = backend.slice(&parent, 0, 8, c"left")?;
    let right = backend.slice(&parent, 8, 8, c"right")?;
    raw.adopt(parent);
    raw.adopt(left);
    raw.adopt(right);
    Ok(())
}

fn bound_input<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    halves(&mut raw, &backend, [100.0, 100.0, 5.0, 1.0])?;
    let other = raw.tensor(&backend, [2.0, 4.0])?;
    let result = raw.tensor(&backend, [0.0, 0.0])?;
    raw.input(&backend, c"input0", 2)?;
    raw.input(&backend, c"input1", other)?;
    raw.output(&backend, result)?;
    raw.execute(&backend)?;
    equal(
        "input0 - input1",
        raw.floats(&backend, result)?,
        vec![3.0, -3.0],
    )?;
    raw.close(&backend)
}

fn bound_output<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    halves(&mut raw, &backend, [10.0, 20.0, 30.0, 40.0])?;
    let a = raw.tensor(&backend, [5.0, 1.0])?;
    let b = raw.tensor(&backend, [2.0, 4.0])?;
    raw.input(&backend, c"input0", a)?;
    raw.input(&backend, c"input1", b)?;
    raw.output(&backend, 1)?;
    raw.execute(&backend)?;
    equal(
        "the whole",
        raw.floats(&backend, 0)?,
        vec![3.0, -3.0, 30.0, 40.0],
    )?;
    raw.close(&backend)
}

fn both_inputs<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    halves(&mut raw, &backend, [5.0, 1.0, 2.0, 4.0])?;
    let result = raw.tensor(&backend, [0.0, 0.0])?;
    raw.input(&backend, c"input0", 1)?;
    raw.input(&backend, c"input1", 2)?;
    raw.output(&backend, result)?;
    raw.execute(&backend)?;
    equal(
        "left - right",
        raw.floats(&backend, result)?,
        vec![3.0, -3.0],
    )?;
    raw.close(&backend)
}

fn in_and_out<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    halves(&mut raw, &backend, [5.0, 1.0, 2.0, 4.0])?;
    raw.input(&backend, c"input0", 1)?;
    raw.input(&backend, c"input1", 2)?;
    raw.output(&backend, 2)?;
    raw.execute(&backend)?;
    raw.execute(&backend)?;
    // left - right, and then left less that.
    equal(
        "the whole",
        raw.floats(&backend, 0)?,
        vec![5.0, 1.0, 2.0, 4.0],
    )?;
    raw.close(&backend)
}

fn shifted<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    let parent = allocate(&backend, 12)?;
    backend.write(&parent, 0, &bytes_of(&[5.0, 1.0, 9.0]))?;
    let first = backend.slice(&parent, 0, 8, c"first")?;
    let second = backend.slice(&parent, 4, 8, c"second")?;
    let (parent, first) = (raw.adopt(parent), raw.adopt(first));
    let second = raw.adopt(second);
    let ones = raw.tensor(&backend, [1.0, 1.0])?;
    raw.input(&backend, c"input0", first)?;
    raw.input(&backend, c"input1", ones)?;
    raw.output(&backend, second)?;
    raw.execute(&backend)?;
    equal(
        "the whole",
        raw.floats(&backend, parent)?,
        vec![5.0, 4.0, 0.0],
    )?;
    raw.close(&backend)
}

fn copy_within<B: Backend>(backend: B) -> Result<(), Failure> {
    let tensor = allocate(&backend, 6)?;
    backend.write(&tensor, 0, &[1, 2, 3, 4, 5, 6])?;
    backend.copy(&tensor, 0, &tensor, 2, 4)?;
    equal("moved up", read(&backend, &tensor)?, vec![1, 2, 1, 2, 3, 4])?;
    backend.copy(&tensor, 2, &tensor, 1, 4)?;
    equal(
        "moved down",
        read(&backend, &tensor)?,
        vec![1, 1, 2, 3, 4, 4],
    )?;
    backend.free(tensor);
    Ok(())
}

fn host_slice<B: Backend>(backend: B) -> Result<(), Failure> {
    let host = backend.allocate(Placement::Host, CORE, 4, c"h")?;
    let slice = backend.slice(&host, 1, 2, c"s")?;
    backend.write(&slice, 0, &[7, 8])?;
    equal("the parent", read(&backend, &host)?, vec![0, 7, 8, 0])?;
    backend.free(host);
    equal("the slice alone", read(&backend, &slice)?, vec![7, 8])?;
    backend.free(slice);
    Ok(())
}

fn wrong_size<B: Backend>(backend: B, size: usize) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    let result = raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    let wrong = raw.adopt(allocate(&backend, size)?);
    raw.input(&backend, c"input1", wrong)?;
    invalid("an input of another size", raw.execute(&backend))?;
    raw.input(&backend, c"input1", 1)?;
    raw.output(&backend, wrong)?;
    invalid("an output of another size", raw.execute(&backend))?;
    raw.output(&backend, result)?;
    raw.execute(&backend)?;
    equal(
        "input0 - input1",
        raw.floats(&backend, result)?,
        vec![3.0, -3.0],
    )?;
    raw.close(&backend)
}

fn missing_output<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    let a = raw.tensor(&backend, [5.0, 1.0])?;
    raw.input(&backend, c"input0", a)?;
    raw.input(&backend, c"input1", a)?;
    let error = refused("no output", raw.execute(&backend))?;
    holds("it is no completion", !error.status().is_completed())?;
    raw.close(&backend)
}

fn extra<B: Backend>(backend: B, is_refused: bool) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    let result = raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    raw.input(&backend, c"input9", 0)?;
    if is_refused {
        invalid("a name of no slot", raw.execute(&backend))?;
    } else {
        raw.execute(&backend)?;
        equal(
            "input0 - input1",
            raw.floats(&backend, result)?,
            vec![3.0, -3.0],
        )?;
    }
    raw.close(&backend)
}

fn too_long<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    let result = raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    let name = std::ffi::CString::new(vec![b'n'; 256])?;
    refused("a long name", raw.input(&backend, &name, 0)).map(drop)?;
    raw.execute(&backend)?;
    equal(
        "input0 - input1",
        raw.floats(&backend, result)?,
        vec![3.0, -3.0],
    )?;
    raw.close(&backend)
}

fn shared_sets<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut one = Raw::new(&backend)?;
    let two = Raw::new(&backend)?;
    let result = one.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    one.execute(&backend)?;
    backend
        .execute(&two.model, &one.inputs, &mut one.outputs)
        .map(drop)?;
    equal(
        "input0 - input1",
        one.floats(&backend, result)?,
        vec![3.0, -3.0],
    )?;
    two.close(&backend)?;
    one.execute(&backend)?;
    one.close(&backend)
}

fn two_inputs<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    let a = raw.tensor(&backend, [5.0, 1.0])?;
    let result = raw.tensor(&backend, [9.0, 9.0])?;
    raw.input(&backend, c"input0", a)?;
    raw.input(&backend, c"input1", a)?;
    raw.output(&backend, result)?;
    raw.execute(&backend)?;
    equal("a - a", raw.floats(&backend, result)?, vec![0.0, 0.0])?;
    raw.close(&backend)
}

/// `(b, a)` over `f32[2]`.
fn swapping<B: Backend>(backend: &B) -> Result<Raw<B>, Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    Raw::load(backend, pack(graph.finish(&[b, a]))?)
}

fn two_outputs<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = swapping(&backend)?;
    let a = raw.tensor(&backend, [1.0, 2.0])?;
    let b = raw.tensor(&backend, [3.0, 4.0])?;
    let one = raw.tensor(&backend, [0.0, 0.0])?;
    raw.input(&backend, c"input0", a)?;
    raw.input(&backend, c"input1", b)?;
    raw.output(&backend, one)?;
    backend.bind(&mut raw.outputs, c"output1", &raw.tensors[one])?;
    invalid("one tensor for two outputs", raw.execute(&backend))?;
    equal("the tensor", raw.floats(&backend, one)?, vec![0.0, 0.0])?;
    raw.close(&backend)
}

fn exchange<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = swapping(&backend)?;
    let a = raw.tensor(&backend, [1.0, 2.0])?;
    let b = raw.tensor(&backend, [3.0, 4.0])?;
    raw.input(&backend, c"input0", a)?;
    raw.input(&backend, c"input1", b)?;
    raw.output(&backend, a)?;
    backend.bind(&mut raw.outputs, c"output1", &raw.tensors[b])?;
    for (left, right) in [([3.0, 4.0], [1.0, 2.0]), ([1.0, 2.0], [3.0, 4.0])] {
        raw.execute(&backend)?;
        equal(
            "the first",
            floats_of(&backend, &raw.tensors[a])?,
            left.to_vec(),
        )?;
        equal(
            "the second",
            floats_of(&backend, &raw.tensors[b])?,
            right.to_vec(),
        )?;
    }
    raw.close(&backend)
}

fn rebind<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    let result = raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    raw.execute(&backend)?;
    let other = raw.tensor(&backend, [50.0, 10.0])?;
    raw.input(&backend, c"input0", other)?;
    raw.execute(&backend)?;
    equal(
        "input0 - input1",
        raw.floats(&backend, result)?,
        vec![48.0, 6.0],
    )?;
    let fresh = raw.tensor(&backend, [0.0, 0.0])?;
    raw.output(&backend, fresh)?;
    raw.execute(&backend)?;
    equal(
        "the new result",
        raw.floats(&backend, fresh)?,
        vec![48.0, 6.0],
    )?;
    equal(
        "the old one",
        raw.floats(&backend, result)?,
        vec![48.0, 6.0],
    )?;
    raw.close(&backend)
}
