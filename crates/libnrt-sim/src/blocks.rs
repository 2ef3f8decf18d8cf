//! Memory that callers get from the library and give back.
//!
//! Blocks with a function of their own to free them are kept in a table by their
//! address, so that a block that is no longer there is not freed again. What the
//! headers have callers free with `free` comes from `malloc`.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use metaneff_binding::{BackendError, Side, TensorInfo};

use crate::pointers::Array;

/// `nrt_tensor_info_array_t`, whatever its length.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct InfoBlock {
    tensor_count: u64,
}

/// Bytes of a name, its end mark included: `NRT_TENSOR_NAME_MAX`.
const NAME: usize = 256;

/// Words of a `nrt_tensor_info_t`: name, usage, size, type, shape, rank.
const ENTRY: usize = NAME / 8 + 5;

static BLOCKS: Mutex<BTreeMap<usize, Box<[u64]>>> = Mutex::new(BTreeMap::new());

fn blocks() -> std::sync::MutexGuard<'static, BTreeMap<usize, Box<[u64]>>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A 32-bit number at the start of a word, as C lays it out.
fn half(number: u32) -> u64 {
    halves(number, 0)
}

fn halves(first: u32, second: u32) -> u64 {
    let mut word = [0; 8];
    word[..4].copy_from_slice(&first.to_ne_bytes());
    word[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(word)
}

/// One block with a `nrt_tensor_info_array_t` and its shapes.
pub(crate) fn tensor_info(tensors: &[TensorInfo]) -> *mut InfoBlock {
    let shapes_at = 1 + ENTRY * tensors.len();
    let shape_words = |info: &TensorInfo| info.shape.len().div_ceil(2).max(1);
    let words = shapes_at + tensors.iter().map(shape_words).sum::<usize>();
    let mut block = vec![0_u64; words].into_boxed_slice();
    let start = block.as_mut_ptr().expose_provenance();
    block[0] = wide(tensors.len());
    let mut shape_at = shapes_at;
    for (index, info) in tensors.iter().enumerate() {
        let entry = &mut block[1 + index * ENTRY..][..ENTRY];
        let name = info.name.as_bytes();
        let name = &name[..name.len().min(NAME - 1)];
        for (word, chunk) in entry.iter_mut().zip(name.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(bytes);
        }
        let fields = [
            half(u32::from(info.side == Side::Output)),
            wide(info.size),
            half(info.dtype.0),
            wide(start + shape_at * 8),
            half(u32::try_from(info.shape.len()).unwrap_or(u32::MAX)),
        ];
        entry[NAME / 8..].copy_from_slice(&fields);
        for (word, pair) in block[shape_at..].iter_mut().zip(info.shape.chunks(2)) {
            *word = halves(pair[0], pair.get(1).copied().unwrap_or(0));
        }
        shape_at += shape_words(info);
    }
    blocks().insert(start, block);
    ptr::with_exposed_provenance_mut(start)
}

/// A block with `text` and a NUL behind it, which [`free`] frees.
pub(crate) fn text(text: &str) -> *mut c_char {
    let mut block = vec![0_u64; text.len() / 8 + 1].into_boxed_slice();
    for (word, chunk) in block.iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(bytes);
    }
    let start = block.as_mut_ptr().expose_provenance();
    blocks().insert(start, block);
    ptr::with_exposed_provenance_mut(start)
}

/// A copy of `bytes` that the caller frees with `free`; `None` where there is no
/// memory.
pub(crate) fn copy(bytes: &[u8]) -> Option<NonNull<c_void>> {
    // SAFETY: a size of at least 1 is given, and null is checked.
    let block = NonNull::new(unsafe { libc::malloc(bytes.len().max(1)) })?;
    // SAFETY: the block has room for all of `bytes`, and nothing else has it.
    unsafe {
        block
            .cast::<u8>()
            .as_ptr()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    Some(block)
}

/// An array of texts that the caller frees with `free`, each text and the array;
/// `None` where there is no memory.
pub(crate) fn texts(texts: &[&str]) -> Option<NonNull<c_void>> {
    let mut addresses = Vec::with_capacity(texts.len() * size_of::<usize>());
    for text in texts {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        let address = copy(&bytes)?.as_ptr().expose_provenance();
        addresses.extend_from_slice(&address.to_ne_bytes());
    }
    copy(&addresses)
}

/// Frees an array of [`texts`].
pub(crate) fn free_texts(
    call: &'static str,
    array: Array<*mut c_void>,
    count: usize,
) -> Result<(), BackendError> {
    if array.is_null() {
        return Ok(());
    }
    for text in array.to_vec(call, "event_types", count)? {
        // SAFETY: the C caller gives an array that the library made, whose texts
        // come from `malloc`; null is free to be freed.
        unsafe { libc::free(text) };
    }
    // SAFETY: the array comes from `malloc` too.
    unsafe { libc::free(array.as_ptr().cast_mut().cast()) };
    Ok(())
}

/// Frees the block at `address`; answers whether there was one.
pub(crate) fn free(address: usize) -> bool {
    let block = blocks().remove(&address);
    block.is_some()
}
