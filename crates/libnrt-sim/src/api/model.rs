//! Loading, unloading and describing models.

use metaneff_backend_sim::SimModel;
use metaneff_binding::{
    Backend as _, BackendError, CollectiveContext, Core, LoadRequest, TensorInfo,
};
use metaneff_schema::nrt::Status;

use crate::api::lifecycle::copy_out;
use crate::blocks::{self, InfoBlock};
use crate::export::{export, failure, invalid};
use crate::handles::{Handle, Model};
use crate::pointers::{Bytes, Out};
use crate::runtime;
use crate::stack;
use crate::trace::Kind;

/// What the caller asks for beside the NEFF.
struct Wanted {
    vnc: i32,
    count: i32,
    collectives: Option<CollectiveContext>,
}

export! {
    header "nrt.h", node "NRT_2.0.0";

    /// Loads a NEFF, whose bytes are copied.
    fn nrt_load(
        call; neff_bytes: Bytes, size: usize, vnc: i32, vnc_count: i32, model: Out<Handle<Model>>,
    ) -> Status {
        let wanted = Wanted { vnc, count: vnc_count, collectives: None };
        load(call, neff_bytes, size, &wanted, &model)
    }

    /// Loads a NEFF as one rank of a world, without waiting for the others.
    fn nrt_load_collectives(
        call; neff_bytes: Bytes, size: usize, vnc: i32, vnc_count: i32, ctx_device_id: u32,
        ctx_device_count: u32, model: Out<Handle<Model>>,
    ) -> Status {
        let context = CollectiveContext::new(ctx_device_id, ctx_device_count);
        let wanted = Wanted { vnc, count: vnc_count, collectives: Some(context) };
        load(call, neff_bytes, size, &wanted, &model)
    }

    /// Unloads a model. Executions of it that take place end first, on their own.
    fn nrt_unload(call; model: Handle<Model>) -> Status {
        let runtime = runtime::current(call)?;
        // What is queued goes first.
        model.get(call, "model")?;
        runtime.settle();
        let model = model.take(call, "model")?;
        runtime.sim.unload(model.model.clone())?;
        Ok(Status::SUCCESS)
    }

    /// Logical cores that the model takes.
    fn nrt_get_model_nc_count(call; model: Handle<Model>, vnc_count: Out<u32>) -> Status {
        cores(call, model, &vnc_count)
    }

    /// Logical cores that the model takes.
    fn nrt_get_model_vnc_count(call; model: Handle<Model>, vnc_count: Out<u32>) -> Status {
        cores(call, model, &vnc_count)
    }
}

pub(crate) mod experimental {
    //! `nrt_experimental.h`.

    use super::*;

    export! {
        header "nrt_experimental.h", node "NRT_2.0.0";

        /// The tensors at the model's boundary, in one block of memory.
        fn nrt_get_model_tensor_info(
            call; model: Handle<Model>, tensor_info: Out<*mut InfoBlock>,
        ) -> Status {
            let runtime = runtime::current(call)?;
            let place = tensor_info.place(call, "tensor_info")?;
            let model = model.get(call, "model")?;
            let tensors: Vec<TensorInfo> = runtime.sim.model_tensors(&model.model)?;
            place.set(blocks::tensor_info(&tensors));
            Ok(Status::SUCCESS)
        }

        /// Frees a block of `nrt_get_model_tensor_info`, also after `nrt_close`.
        fn nrt_free_model_tensor_info(call; tensor_info: *mut InfoBlock) -> Status {
            if tensor_info.is_null() {
                return Err(invalid(call, "tensor_info", "the pointer is null"));
            }
            if blocks::free(tensor_info.addr()) {
                return Ok(Status::SUCCESS);
            }
            Err(failure(call, Status::INVALID_HANDLE))
        }

        /// How many threads may usefully execute the model at once: each
        /// execution computes on its caller's thread.
        fn nrt_get_model_instance_count(
            call; model: Handle<Model>, instance_count: Out<u32>,
        ) -> Status {
            runtime::current(call)?;
            let place = instance_count.place(call, "instance_count")?;
            model.get(call, "model")?;
            place.set(1);
            Ok(Status::SUCCESS)
        }

        /// What the model was loaded as, as much of it as the caller knows.
        fn nrt_get_model_info(
            call; model: Handle<Model>, info: Out<u8>, info_size_in: usize,
            info_size_out: Out<usize>,
        ) -> Status {
            runtime::current(call)?;
            let model = model.get(call, "model")?;
            let vnc = model.model.core().index().to_ne_bytes();
            let written = copy_out(call, "info", &info, &vnc, info_size_in)?;
            if let Some(place) = info_size_out.optional() {
                place.set(written);
            }
            Ok(Status::SUCCESS)
        }
    }
}

fn load(
    call: &'static str,
    neff: Bytes,
    size: usize,
    wanted: &Wanted,
    model: &Out<Handle<Model>>,
) -> Result<Status, BackendError> {
    let runtime = runtime::current(call)?;
    let place = model.place(call, "model")?;
    let neff = neff.slice(call, "neff_bytes", size)?;
    if neff.is_empty() {
        return Err(invalid(call, "size", "a NEFF has at least 1 byte"));
    }
    let mut request = LoadRequest::new(bytes::Bytes::copy_from_slice(neff));
    if wanted.vnc != -1 {
        request = request.on(runtime::core(call, "vnc", wanted.vnc)?);
    }
    if let Some(context) = wanted.collectives {
        request = request.with_collectives(context);
    }
    // The header deprecates the count: callers that know no better pass 1.
    let cores =
        match wanted.count {
            -1..=1 => None,
            count => Some(u32::try_from(count).map_err(|_| {
                invalid(call, "vnc_count", format!("{count} is no number of cores"))
            })?),
        };
    let describe = |loaded: &Result<SimModel, BackendError>| match loaded {
        Ok(model) => {
            let name = model.name().to_owned();
            (
                model.core().index(),
                runtime::identity(model.id()),
                name,
                neff.len(),
            )
        }
        Err(_) => {
            let core = request.core.map_or(0, Core::index);
            (core, 0, String::new(), neff.len())
        }
    };
    let loaded = runtime
        .recorder
        .span(Kind::Load, describe, runtime::outcome_of, || {
            stack::roomy(|| runtime.sim.load_on(&request, cores))
        })?;
    place.set(Handle::new(Model { model: loaded }));
    Ok(Status::SUCCESS)
}

fn cores(
    call: &'static str,
    model: Handle<Model>,
    count: &Out<u32>,
) -> Result<Status, BackendError> {
    runtime::current(call)?;
    let place = count.place(call, "vnc_count")?;
    place.set(model.get(call, "model")?.model.core_count());
    Ok(Status::SUCCESS)
}
