"""A client of the library in Python, with ctypes."""

import array
import ctypes
import json
import os
import threading

SUCCESS, UNINITIALIZED, CLOSED = 0, 13, 14

nrt = ctypes.CDLL("libnrt.so.1", mode=os.RTLD_NOW | os.RTLD_GLOBAL)
nrt.nrt_get_status_as_str.restype = ctypes.c_char_p
nrt.nrt_tensor_get_size.restype = ctypes.c_size_t
nrt.nrt_tensor_get_va.restype = ctypes.c_void_p


class TensorInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 256),
        ("usage", ctypes.c_int),
        ("size", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_uint32)),
        ("ndim", ctypes.c_uint32),
    ]


assert ctypes.sizeof(TensorInfo) == 296


class Pointer(ctypes.c_void_p):
    """A handle of its own type, so that ctypes hands it on as it is."""


def ok(status):
    assert status == SUCCESS, nrt.nrt_get_status_as_str(status)


def tensor(values):
    made = Pointer()
    data = array.array("f", values).tobytes()
    size = ctypes.c_size_t(len(data))
    ok(nrt.nrt_tensor_allocate(0, 0, size, b"t", ctypes.byref(made)))
    ok(nrt.nrt_tensor_write(made, data, ctypes.c_size_t(0), size))
    return made


def values(made):
    size = nrt.nrt_tensor_get_size(made)
    data = ctypes.create_string_buffer(size)
    ok(nrt.nrt_tensor_read(made, data, ctypes.c_size_t(0), ctypes.c_size_t(size)))
    return list(array.array("f", data.raw))


def tensor_set(members):
    made = Pointer()
    ok(nrt.nrt_allocate_tensor_set(ctypes.byref(made)))
    for name, member in members.items():
        ok(nrt.nrt_add_tensor_to_tensor_set(made, name, member))
    return made


def boundary(model):
    infos = ctypes.c_void_p()
    ok(nrt.nrt_get_model_tensor_info(model, ctypes.byref(infos)))
    count = ctypes.c_uint64.from_address(infos.value).value
    entries = (TensorInfo * count).from_address(infos.value + 8)
    found = [
        (e.name, e.usage, e.size, e.dtype, [e.shape[i] for i in range(e.ndim)]) for e in entries
    ]
    ok(nrt.nrt_free_model_tensor_info(infos))
    return found


def trace():
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    ok(nrt.nrt_sys_trace_fetch_events(ctypes.byref(text), ctypes.byref(size), None))
    events = json.loads(ctypes.string_at(text.value, size.value))["events"]
    nrt.nrt_sys_trace_buffer_free(text)
    return events


def main():
    made = Pointer()
    assert nrt.nrt_allocate_tensor_set(ctypes.byref(made)) == UNINITIALIZED
    ok(nrt.nrt_init(1, b"", b""))
    with open("add.neff", "rb") as file:
        neff = file.read()
    model = Pointer()
    ok(nrt.nrt_load(neff, ctypes.c_size_t(len(neff)), -1, 1, ctypes.byref(model)))
    assert boundary(model) == [
        (b"input0", 0, 16, 10, [4]),
        (b"input1", 0, 16, 10, [4]),
        (b"output0", 1, 16, 10, [4]),
    ]
    a, b, out = tensor([1, 2, 3, 4]), tensor([10, 20, 30, 40]), tensor([0] * 4)
    inputs = tensor_set({b"input0": a, b"input1": b})
    outputs = tensor_set({b"output0": out})
    ok(nrt.nrt_sys_trace_start(None))
    ok(nrt.nrt_execute(model, inputs, outputs))
    assert values(out) == [11, 22, 33, 44]
    running = [e for e in trace() if e["event_type"] == "nc_exec_running"]
    assert [e["phase"] for e in running] == ["start", "stop"]
    start, stop = (e["data"]["nc_timestamp_ns"] for e in running)
    assert 0 < start < stop
    assert running[0]["tracking_id"] == running[1]["tracking_id"]
    assert trace() == []
    ok(nrt.nrt_sys_trace_stop())

    # ctypes lets go of the interpreter's lock: threads execute at once.
    failures = []

    def work():
        for _ in range(100):
            if nrt.nrt_execute(model, inputs, outputs) != SUCCESS:
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures

    address = nrt.nrt_tensor_get_va(out)
    assert list((ctypes.c_float * 4).from_address(address)) == [11, 22, 33, 44]
    ok(nrt.nrt_unload(model))
    for handle in (a, b, out):
        nrt.nrt_tensor_free(ctypes.byref(handle))
        assert not handle
    nrt.nrt_close()
    assert nrt.nrt_allocate_tensor_set(ctypes.byref(made)) == CLOSED
    nrt.nrt_destroy_tensor_set(ctypes.byref(inputs))


main()
