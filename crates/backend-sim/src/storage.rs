//! The bytes behind tensors.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use metaneff_hlo::array::Buffer;

use crate::memory::{ALIGNMENT, Charge};
use crate::report::wide;
use crate::sync::{lock, wait};

/// No two storages are ever given the same device addresses.
static NEXT_PHYSICAL: AtomicU64 = AtomicU64::new(1 << 32);

/// Memory that the caller owns and attaches to a tensor
/// ([`Sim::attach`](crate::Sim::attach)).
///
/// The simulator keeps within `size()` bytes; it calls from several threads.
/// Such a tensor's bytes are copied once for each execution that reads them.
pub trait ExternalMemory: Debug + Send + Sync + 'static {
    /// Size in bytes.
    fn size(&self) -> usize;

    /// Address of the first byte.
    fn address(&self) -> usize;

    /// Fills `out` with the bytes from `offset` on.
    fn read(&self, offset: usize, out: &mut [u8]);

    /// Writes `data` from `offset` on.
    fn write(&self, offset: usize, data: &[u8]);
}

/// Bytes that one or more tensors share.
///
/// Executions read a snapshot, which is a reference to the buffer. A write that
/// meets a snapshot goes to a copy of the buffer, so an execution sees its
/// inputs as they were when it started, and no one waits. A buffer whose address
/// was given out cannot move: there, a write waits until no execution reads.
#[derive(Debug)]
pub(crate) struct Storage {
    size: usize,
    /// Where in the device's address space it would be.
    physical: u64,
    cell: Mutex<Cell>,
    released: Condvar,
}

#[derive(Debug)]
struct Cell {
    content: Content,
    pinned: bool,
    charge: Option<Charge>,
}

#[derive(Debug)]
enum Content {
    Owned(Arc<Buffer>),
    External(Arc<dyn ExternalMemory>),
    Gone,
}

/// Why bytes cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageError {
    /// The runtime was closed and took the memory back.
    Gone,
    /// The host has no memory for a copy of this many bytes.
    Host(usize),
}

/// Bytes of a storage as they were at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    storage: Arc<Storage>,
    buffer: Option<Arc<Buffer>>,
    offset: usize,
    size: usize,
}

impl Storage {
    pub(crate) fn zeroed(size: usize, charge: Option<Charge>) -> Result<Arc<Self>, StorageError> {
        let buffer = Buffer::zeroed(size).map_err(|_| StorageError::Host(size))?;
        Ok(Self::new(size, Content::Owned(Arc::new(buffer)), charge))
    }

    pub(crate) fn external(memory: Arc<dyn ExternalMemory>) -> Arc<Self> {
        Self::new(memory.size(), Content::External(memory), None)
    }

    fn new(size: usize, content: Content, charge: Option<Charge>) -> Arc<Self> {
        let cell = Cell {
            content,
            pinned: false,
            charge,
        };
        let span = size.div_ceil(ALIGNMENT).max(1) * ALIGNMENT;
        Arc::new(Self {
            size,
            physical: NEXT_PHYSICAL.fetch_add(wide(span), Ordering::Relaxed),
            cell: Mutex::new(cell),
            released: Condvar::new(),
        })
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn physical(&self) -> u64 {
        self.physical
    }

    /// Takes the memory away from everyone who still holds the storage.
    pub(crate) fn reclaim(&self) {
        let mut cell = lock(&self.cell);
        let content = std::mem::replace(&mut cell.content, Content::Gone);
        let charge = cell.charge.take();
        drop(cell);
        drop((content, charge));
        self.released.notify_all();
    }

    /// The address of the first byte, which stays from now on.
    pub(crate) fn address(&self) -> Option<usize> {
        let mut cell = lock(&self.cell);
        let address = match &cell.content {
            Content::Owned(buffer) => Some(buffer.bytes().as_ptr().addr()),
            Content::External(memory) => Some(memory.address()),
            Content::Gone => None,
        };
        cell.pinned = address.is_some();
        address
    }

    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), StorageError> {
        let buffer = match &lock(&self.cell).content {
            Content::Owned(buffer) => {
                out.copy_from_slice(&buffer.bytes()[offset..offset + out.len()]);
                return Ok(());
            }
            Content::External(memory) => Arc::clone(memory),
            Content::Gone => return Err(StorageError::Gone),
        };
        buffer.read(offset, out);
        Ok(())
    }

    pub(crate) fn write(&self, offset: usize, data: &[u8]) -> Result<(), StorageError> {
        self.modify(
            offset,
            data.len(),
            |bytes| bytes.copy_from_slice(data),
            |memory| memory.write(offset, data),
        )
    }

    pub(crate) fn fill(&self, offset: usize, value: u8, size: usize) -> Result<(), StorageError> {
        self.modify(
            offset,
            size,
            |bytes| bytes.fill(value),
            |memory| {
                let chunk = [value; 4096];
                let mut at = offset;
                let end = offset + size;
                while at < end {
                    let step = chunk.len().min(end - at);
                    memory.write(at, &chunk[..step]);
                    at += step;
                }
            },
        )
    }

    /// Makes `buffer` the bytes from `offset` on. It takes the place of the old
    /// buffer, without a copy, if it is as large, nothing else refers to it and
    /// the old one may move.
    pub(crate) fn put(&self, offset: usize, mut buffer: Arc<Buffer>) -> Result<(), StorageError> {
        if offset == 0 && buffer.len() == self.size && Arc::get_mut(&mut buffer).is_some() {
            let mut cell = lock(&self.cell);
            let pinned = cell.pinned;
            if let Content::Owned(old) = &mut cell.content
                && !pinned
            {
                *old = buffer;
                return Ok(());
            }
        }
        self.write(offset, buffer.bytes())
    }

    pub(crate) fn snapshot(
        self: &Arc<Self>,
        offset: usize,
        size: usize,
    ) -> Result<Snapshot, StorageError> {
        let external = match &lock(&self.cell).content {
            Content::Owned(buffer) => {
                return Ok(Snapshot {
                    storage: Arc::clone(self),
                    buffer: Some(Arc::clone(buffer)),
                    offset,
                    size,
                });
            }
            Content::External(memory) => Arc::clone(memory),
            Content::Gone => return Err(StorageError::Gone),
        };
        let mut copy = Buffer::zeroed(size).map_err(|_| StorageError::Host(size))?;
        external.read(offset, copy.bytes_mut());
        Ok(Snapshot {
            storage: Arc::clone(self),
            buffer: Some(Arc::new(copy)),
            offset: 0,
            size,
        })
    }

    fn modify(
        &self,
        offset: usize,
        size: usize,
        owned: impl FnOnce(&mut [u8]),
        external: impl FnOnce(&dyn ExternalMemory),
    ) -> Result<(), StorageError> {
        let mut cell = self.exclusive()?;
        match &mut cell.content {
            Content::Owned(buffer) => {
                let Some(buffer) = Arc::get_mut(buffer) else {
                    // `exclusive` has just made this the only reference.
                    return Err(StorageError::Host(self.size));
                };
                owned(&mut buffer.bytes_mut()[offset..offset + size]);
                Ok(())
            }
            Content::External(memory) => {
                let memory = Arc::clone(memory);
                drop(cell);
                external(memory.as_ref());
                Ok(())
            }
            Content::Gone => Err(StorageError::Gone),
        }
    }

    /// The cell, with a buffer that nothing else refers to.
    fn exclusive(&self) -> Result<MutexGuard<'_, Cell>, StorageError> {
        let mut cell = lock(&self.cell);
        loop {
            let pinned = cell.pinned;
            match &mut cell.content {
                Content::Owned(buffer) => {
                    if Arc::get_mut(buffer).is_some() {
                        return Ok(cell);
                    }
                    if !pinned {
                        let copy = Buffer::copied(buffer.bytes())
                            .map_err(|_| StorageError::Host(self.size))?;
                        *buffer = Arc::new(copy);
                        return Ok(cell);
                    }
                }
                Content::External(_) | Content::Gone => return Ok(cell),
            }
            cell = wait(&self.released, cell);
        }
    }
}

impl Snapshot {
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer.bytes()[self.offset..self.offset + self.size],
            None => &[],
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // Under the lock, so that a writer cannot miss it between its check and
        // its wait.
        let cell = lock(&self.storage.cell);
        self.buffer = None;
        drop(cell);
        self.storage.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_snapshot_keeps_the_bytes_of_its_moment() {
        let storage = Storage::zeroed(100, None).unwrap();
        storage.write(10, &[1; 10]).unwrap();
        let snapshot = storage.snapshot(8, 4).unwrap();
        storage.fill(0, 9, 100).unwrap();
        assert_eq!(snapshot.bytes(), [0, 0, 1, 1]);
        let mut now = [0; 4];
        storage.read(8, &mut now).unwrap();
        assert_eq!(now, [9; 4]);
    }

    #[test]
    fn an_address_once_given_stays() {
        let storage = Storage::zeroed(64, None).unwrap();
        let address = storage.address().unwrap();
        assert_eq!(address % crate::ALIGNMENT, 0);
        let snapshot = storage.snapshot(0, 64).unwrap();
        let writer = {
            let storage = Arc::clone(&storage);
            thread::spawn(move || storage.write(0, &[7; 64]))
        };
        assert_eq!(snapshot.bytes(), [0; 64]);
        drop(snapshot);
        writer.join().unwrap().unwrap();
        let whole = Arc::new(Buffer::copied(&[8; 64]).unwrap());
        storage.put(0, whole).unwrap();
        assert_eq!(storage.address(), Some(address));
        let mut now = [0; 64];
        storage.read(0, &mut now).unwrap();
        assert_eq!(now, [8; 64]);
    }

    #[test]
    fn a_writer_that_waits_learns_of_a_reclaim() {
        let storage = Storage::zeroed(8, None).unwrap();
        storage.address().unwrap();
        let snapshot = storage.snapshot(0, 8).unwrap();
        let writer = {
            let storage = Arc::clone(&storage);
            thread::spawn(move || storage.write(0, &[1]))
        };
        storage.reclaim();
        assert_eq!(writer.join().unwrap(), Err(StorageError::Gone));
        assert_eq!(snapshot.bytes(), [0; 8]);
        assert_eq!(storage.address(), None);
    }
}
