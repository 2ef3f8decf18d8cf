//! Device memory, slices, tensor sets.

use metaneff_binding::{Backend, Cause, Core, Placement};
use metaneff_schema::nrt::Status;

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::raw::{CORE, Raw, allocate, invalid, read};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const HEADER: &str = "nrt.h, tensors";
    const SETS: &str = "nrt.h, tensor sets";
    const LIMITED: Setup = Setup::ONE_CORE.environment(&[("METANEFF_SIM_MEMORY", "1MiB")]);
    vec![
        Case::new(
            "tensor/allocate/zeroed",
            "fresh memory is zero",
            "nrt.h; public clients of the runtime",
            zeroed,
        ),
        Case::new(
            "tensor/allocate/host",
            "host memory works alike",
            "user need 131",
            host,
        ),
        Case::new(
            "tensor/allocate/empty",
            "size 0 is refused",
            "user need 4",
            empty,
        ),
        Case::new(
            "tensor/allocate/no_core",
            "a core that is none is refused",
            "user need 4",
            no_core,
        ),
        Case::new(
            "tensor/write/part",
            "a part is written and read",
            HEADER,
            part,
        ),
        Case::new(
            "tensor/write/outside",
            "a range outside is refused",
            HEADER,
            outside,
        ),
        Case::new(
            "tensor/write/overflow",
            "offset + size may not overflow",
            "user need 126",
            overflow,
        ),
        Case::new(
            "tensor/slice/shares",
            "a slice shares its parent's memory",
            HEADER,
            shares,
        ),
        Case::new(
            "tensor/slice/outside",
            "a slice outside is refused",
            HEADER,
            slice_outside,
        ),
        Case::new(
            "tensor/slice/parent_first",
            "a slice outlives its parent",
            "nrt.h; public clients of the runtime",
            parent_first,
        ),
        Case::new(
            "tensor/copy/same_core",
            "device memory is copied",
            HEADER,
            copied,
        ),
        Case::new(
            "tensor/copy/outside",
            "a copy outside is refused",
            HEADER,
            copy_outside,
        ),
        Case::new(
            "tensor/copy/other_core",
            "no copy between cores",
            "nrt.h, nrt_tensor_copy",
            copy_cores,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "memory/limit/exact",
            "memory runs out with figures, and comes back",
            "user need 3",
            limit,
        )
        .with(LIMITED),
        Case::new(
            "memory/stats/move",
            "allocating and freeing shows in the figures",
            "nrt.h, memory stats",
            stats,
        ),
        Case::new(
            "set/replace/last_wins",
            "a name is bound anew",
            SETS,
            replace,
        ),
        Case::new(
            "set/bind/by_key",
            "the key decides, not the tensor's own name",
            "nrt.h; public clients of the runtime",
            by_key,
        ),
        Case::new(
            "set/missing/refused",
            "a launch without an input is refused",
            SETS,
            missing,
        ),
        Case::new(
            "set/alias/both_sides",
            "one tensor may stand on both sides",
            "nrt.h; public clients of the runtime",
            both_sides,
        ),
        Case::new(
            "set/destroy/after_tensors",
            "a set may outlive its tensors",
            "nrt.h; public clients of the runtime",
            set_outlives,
        ),
    ]
}

fn zeroed<B: Backend>(backend: B) -> Result<(), Failure> {
    let tensor = allocate(&backend, 100)?;
    equal("size", backend.tensor_size(&tensor), 100)?;
    equal("contents", read(&backend, &tensor)?, vec![0; 100])?;
    backend.free(tensor);
    Ok(())
}

fn host<B: Backend>(backend: B) -> Result<(), Failure> {
    let tensor = backend.allocate(Placement::Host, CORE, 4, c"h")?;
    backend.write(&tensor, 0, &[1, 2, 3, 4])?;
    equal("contents", read(&backend, &tensor)?, vec![1, 2, 3, 4])?;
    backend.free(tensor);
    Ok(())
}

fn empty<B: Backend>(backend: B) -> Result<(), Failure> {
    invalid("size 0", allocate(&backend, 0))
}

fn no_core<B: Backend>(backend: B) -> Result<(), Failure> {
    let core = Core::new(backend.info().visible_cores);
    invalid(
        "the first core that is none",
        backend.allocate(Placement::Device, core, 4, c"t"),
    )
}

fn part<B: Backend>(backend: B) -> Result<(), Failure> {
    let tensor = allocate(&backend, 6)?;
    backend.write(&tensor, 2, &[7, 8])?;
    equal("contents", read(&backend, &tensor)?, vec![0, 0, 7, 8, 0, 0])?;
    let mut middle = [0; 3];
    backend.read(&tensor, 1, &mut middle)?;
    equal("the middle", middle, [0, 7, 8])?;
    backend.free(tensor);
    Ok(())
}

fn outside<B: Backend>(backend: B) -> Result<(), Failure> {
    let tensor = allocate(&backend, 4)?;
    invalid("write past the end", backend.write(&tensor, 2, &[1, 2, 3]))?;
    invalid("read past the end", backend.read(&tensor, 4, &mut [0]))?;
    equal("contents", read(&backend, &tensor)?, vec![0; 4])?;
    backend.free(tensor);
    Ok(())
}

fn overflow<B: Backend>(backend: B) -> Result<(), Failure> {
    let tensor = allocate(&backend, 4)?;
    invalid(
        "write at the last address",
        backend.write(&tensor, usize::MAX, &[1, 2]),
    )?;
    invalid(
        "read at the last address",
        backend.read(&tensor, usize::MAX, &mut [0, 0]),
    )?;
    invalid(
        "slice at the last address",
        backend.slice(&tensor, usize::MAX, 2, c"s"),
    )?;
    backend.free(tensor);
    Ok(())
}

fn shares<B: Backend>(backend: B) -> Result<(), Failure> {
    let parent = allocate(&backend, 8)?;
    let slice = backend.slice(&parent, 2, 4, c"s")?;
    equal("size of the slice", backend.tensor_size(&slice), 4)?;
    backend.write(&slice, 1, &[9])?;
    equal(
        "the parent",
        read(&backend, &parent)?,
        vec![0, 0, 0, 9, 0, 0, 0, 0],
    )?;
    backend.write(&parent, 5, &[5])?;
    equal("the slice", read(&backend, &slice)?, vec![0, 9, 0, 5])?;
    invalid("write past the slice", backend.write(&slice, 3, &[1, 1]))?;
    backend.free(slice);
    backend.free(parent);
    Ok(())
}

fn slice_outside<B: Backend>(backend: B) -> Result<(), Failure> {
    let parent = allocate(&backend, 8)?;
    invalid("past the end", backend.slice(&parent, 6, 3, c"s"))?;
    invalid("empty", backend.slice(&parent, 0, 0, c"s"))?;
    backend.free(parent);
    Ok(())
}

fn parent_first<B: Backend>(backend: B) -> Result<(), Failure> {
    let parent = allocate(&backend, 8)?;
    backend.write(&parent, 0, &[1, 2, 3, 4, 5, 6, 7, 8])?;
    let slice = backend.slice(&parent, 4, 4, c"s")?;
    backend.free(parent);
    equal("the slice", read(&backend, &slice)?, vec![5, 6, 7, 8])?;
    backend.free(slice);
    Ok(())
}

fn copied<B: Backend>(backend: B) -> Result<(), Failure> {
    let source = allocate(&backend, 4)?;
    let target = allocate(&backend, 4)?;
    backend.write(&source, 0, &[1, 2, 3, 4])?;
    backend.copy(&source, 1, &target, 2, 2)?;
    equal("the target", read(&backend, &target)?, vec![0, 0, 2, 3])?;
    backend.free(source);
    backend.free(target);
    Ok(())
}

fn copy_outside<B: Backend>(backend: B) -> Result<(), Failure> {
    let source = allocate(&backend, 4)?;
    let target = allocate(&backend, 4)?;
    invalid("past the source", backend.copy(&source, 2, &target, 0, 3))?;
    invalid("past the target", backend.copy(&source, 0, &target, 2, 3))?;
    invalid(
        "at the last address",
        backend.copy(&source, usize::MAX, &target, 0, 2),
    )?;
    backend.free(source);
    backend.free(target);
    Ok(())
}

fn copy_cores<B: Backend>(backend: B) -> Result<(), Failure> {
    let source = allocate(&backend, 4)?;
    let target = backend.allocate(Placement::Device, Core::new(1), 4, c"t")?;
    invalid(
        "from core 0 to core 1",
        backend.copy(&source, 0, &target, 0, 4),
    )?;
    backend.free(source);
    backend.free(target);
    Ok(())
}

fn limit<B: Backend>(backend: B) -> Result<(), Failure> {
    let first = allocate(&backend, 600 << 10)?;
    backend.write(&first, 0, &[1, 2, 3])?;
    let error = refused("600 KiB more of 1 MiB", allocate(&backend, 600 << 10))?;
    equal("status", error.status(), Status::RESOURCE)?;
    if let Cause::Memory {
        requested,
        used,
        limit,
        ..
    } = error.cause()
    {
        holds("requested covers the size", *requested >= 600 << 10)?;
        holds("used covers the first tensor", *used >= 600 << 10)?;
        equal("limit", *limit, 1 << 20)?;
    }
    equal(
        "the first tensor",
        read(&backend, &first)?[..3].to_vec(),
        vec![1, 2, 3],
    )?;
    backend.free(first);
    let second = allocate(&backend, 600 << 10)?;
    backend.free(second);
    Ok(())
}

fn stats<B: Backend>(backend: B) -> Result<(), Failure> {
    let before = backend.memory_stats(CORE)?;
    let tensor = allocate(&backend, 4096)?;
    let during = backend.memory_stats(CORE)?;
    holds("4096 bytes more in use", during.used >= before.used + 4096)?;
    backend.free(tensor);
    equal(
        "in use after freeing",
        backend.memory_stats(CORE)?.used,
        before.used,
    )
}

fn replace<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Raw::new(&backend)?;
    let old = bench.tensor(&backend, [100.0, 100.0])?;
    let new = bench.tensor(&backend, [5.0, 6.0])?;
    let other = bench.tensor(&backend, [1.0, 2.0])?;
    let result = bench.tensor(&backend, [0.0, 0.0])?;
    bench.input(&backend, c"input0", old)?;
    bench.input(&backend, c"input0", new)?;
    bench.input(&backend, c"input1", other)?;
    bench.output(&backend, result)?;
    bench.execute(&backend)?;
    equal(
        "input0 - input1",
        bench.floats(&backend, result)?,
        vec![4.0, 4.0],
    )?;
    bench.close(&backend)
}

fn by_key<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Raw::new(&backend)?;
    // The tensor's own name is that of the other slot.
    let named = backend.allocate(Placement::Device, CORE, 8, c"input1")?;
    let bytes: Vec<u8> = [9.0_f32, 9.0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    backend.write(&named, 0, &bytes)?;
    bench.tensors.push(named);
    let other = bench.tensor(&backend, [1.0, 2.0])?;
    let result = bench.tensor(&backend, [0.0, 0.0])?;
    bench.input(&backend, c"input0", 0)?;
    bench.input(&backend, c"input1", other)?;
    bench.output(&backend, result)?;
    bench.execute(&backend)?;
    equal(
        "input0 - input1",
        bench.floats(&backend, result)?,
        vec![8.0, 7.0],
    )?;
    bench.close(&backend)
}

fn missing<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Raw::new(&backend)?;
    let one = bench.tensor(&backend, [1.0, 1.0])?;
    let result = bench.tensor(&backend, [3.0, 3.0])?;
    bench.input(&backend, c"input0", one)?;
    bench.output(&backend, result)?;
    let error = refused("a launch without `input1`", bench.execute(&backend))?;
    holds(
        "the status is no completion",
        !error.status().is_completed(),
    )?;
    equal(
        "the output is untouched",
        bench.floats(&backend, result)?,
        vec![3.0, 3.0],
    )?;
    bench.close(&backend)
}

fn both_sides<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Raw::new(&backend)?;
    let shared = bench.tensor(&backend, [10.0, 20.0])?;
    let step = bench.tensor(&backend, [1.0, 2.0])?;
    bench.input(&backend, c"input0", shared)?;
    bench.input(&backend, c"input1", step)?;
    bench.output(&backend, shared)?;
    bench.execute(&backend)?;
    bench.execute(&backend)?;
    equal(
        "two steps down",
        bench.floats(&backend, shared)?,
        vec![8.0, 16.0],
    )?;
    bench.close(&backend)
}

fn set_outlives<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut set = backend.tensor_set()?;
    let tensor = allocate(&backend, 8)?;
    backend.bind(&mut set, c"input0", &tensor)?;
    backend.free(tensor);
    backend.destroy_set(set);
    let next = allocate(&backend, 8)?;
    equal("fresh memory", read(&backend, &next)?, vec![0; 8])?;
    backend.free(next);
    Ok(())
}
