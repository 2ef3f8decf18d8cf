//! The pickles that TorchScript writes, read without running anything.
//!
//! A pickle is a program for a stack machine. This one builds values and calls
//! nothing: a class or a function stays a name, and an object is the name of its
//! class with its state. Opcodes: the Python library's `pickletools`; those that
//! TorchScript emits: `torch/csrc/jit/serialization/pickler.h` of PyTorch.
//! Others are refused.

use std::collections::HashMap;
use std::ops::Range;

/// A value of a [`Pickle`].
pub(super) type Id = u32;

/// Values that a pickle may have whatever its size.
const FREE_VALUES: usize = 64 << 10;

/// Values that are there from the start, for opcodes of one byte that make no
/// new one.
const NONE: Id = 0;
const TRUE: Id = 1;
const FALSE: Id = 2;
const EMPTY_TUPLE: Id = 3;

/// One value. Strings are ranges of the pickle's bytes; they need not be UTF-8.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float,
    Text(Range<usize>),
    /// A class or a function: its module and its name.
    Global(Range<usize>, Range<usize>),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    /// Keys and values in turn.
    Dict(Vec<Id>),
    Object {
        class: Id,
        state: Id,
    },
    /// A function that would be called.
    Call {
        function: Id,
        arguments: Id,
    },
    /// Something outside of the pickle, such as a tensor's storage.
    Outside(Id),
}

/// Why bytes are no pickle of TorchScript.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// The bytes end inside an opcode, or before `STOP`.
    #[error("byte {offset}: {needed} more bytes are needed, {left} are left")]
    Truncated {
        /// Where the bytes are needed.
        offset: usize,
        /// Bytes needed.
        needed: u64,
        /// Bytes left.
        left: usize,
    },
    /// The opcode is none that TorchScript writes.
    #[error("byte {offset}: opcode {opcode:#04x} is not one that TorchScript writes")]
    Opcode {
        /// Where it stands.
        offset: usize,
        /// The opcode.
        opcode: u8,
    },
    /// The opcode takes a value that is not there, or of another kind.
    #[error("byte {offset}: expected {expected}")]
    Stack {
        /// Where the opcode stands.
        offset: usize,
        /// What it takes.
        expected: &'static str,
    },
    /// There are more values than bytes warrant.
    #[error("byte {offset}: more than {limit} values")]
    Values {
        /// Where the limit was passed.
        offset: usize,
        /// The limit.
        limit: usize,
    },
}

/// A pickle's values.
#[derive(Debug)]
pub(super) struct Pickle<'b> {
    bytes: &'b [u8],
    values: Vec<Value>,
    root: Id,
}

impl<'b> Pickle<'b> {
    /// Builds the values of a pickle.
    pub(super) fn read(bytes: &'b [u8]) -> Result<Self, PickleError> {
        let mut machine = Machine {
            bytes,
            offset: 0,
            limit: FREE_VALUES.saturating_add(bytes.len() / 4),
            values: vec![
                Value::None,
                Value::Bool(true),
                Value::Bool(false),
                Value::Tuple(Vec::new()),
            ],
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        };
        let root = machine.run()?;
        Ok(Self {
            bytes,
            values: machine.values,
            root,
        })
    }

    pub(super) const fn root(&self) -> Id {
        self.root
    }

    pub(super) fn get(&self, id: Id) -> &Value {
        // Ids are made by the machine, and no value is taken away.
        &self.values[id as usize]
    }

    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    /// The bytes of a string value.
    pub(super) fn text(&self, id: Id) -> Option<(&'b [u8], Range<usize>)> {
        match self.get(id) {
            Value::Text(range) => Some((&self.bytes[range.clone()], range.clone())),
            _ => None,
        }
    }

    /// The module and the name of a class or a function.
    pub(super) fn global(&self, id: Id) -> Option<(&'b [u8], &'b [u8])> {
        match self.get(id) {
            Value::Global(module, name) => {
                Some((&self.bytes[module.clone()], &self.bytes[name.clone()]))
            }
            _ => None,
        }
    }

    /// Whether the value is this class or function.
    pub(super) fn is_global(&self, id: Id, module: &str, name: &str) -> bool {
        self.global(id) == Some((module.as_bytes(), name.as_bytes()))
    }

    pub(super) fn tuple(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Value::Tuple(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn int(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }
}

struct Machine<'b> {
    bytes: &'b [u8],
    offset: usize,
    limit: usize,
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Id, PickleError> {
        loop {
            let start = self.offset;
            let [opcode] = self.array()?;
            match opcode {
                // PROTO
                0x80 => {
                    self.array::<1>()?;
                }
                // STOP
                b'.' => return self.pop(start),
                b'(' => self.marks.push(self.stack.len()),
                b'N' => self.stack.push(NONE),
                0x88 => self.stack.push(TRUE),
                0x89 => self.stack.push(FALSE),
                b')' => self.stack.push(EMPTY_TUPLE),
                b']' => self.push(Value::List(Vec::new()), start)?,
                b'}' => self.push(Value::Dict(Vec::new()), start)?,
                // BININT1, BININT2, BININT
                b'K' => {
                    let [byte] = self.array()?;
                    self.push(Value::Int(byte.into()), start)?;
                }
                b'M' => {
                    let number = u16::from_le_bytes(self.array()?);
                    self.push(Value::Int(number.into()), start)?;
                }
                b'J' => {
                    let number = i32::from_le_bytes(self.array()?);
                    self.push(Value::Int(number.into()), start)?;
                }
                // LONG1
                0x8a => {
                    let [size] = self.array()?;
                    let number = self.long(size.into(), start)?;
                    self.push(Value::Int(number), start)?;
                }
                // BINFLOAT
                b'G' => {
                    self.array::<8>()?;
                    self.push(Value::Float, start)?;
                }
                // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8
                b'X' => {
                    let size = u32::from_le_bytes(self.array()?);
                    self.string(size.into(), start)?;
                }
                0x8c => {
                    let [size] = self.array()?;
                    self.string(size.into(), start)?;
                }
                0x8d => {
                    let size = u64::from_le_bytes(self.array()?);
                    self.string(size, start)?;
                }
                // GLOBAL
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.push(Value::Global(module, name), start)?;
                }
                // BINPUT, LONG_BINPUT, BINGET, LONG_BINGET
                b'q' => {
                    let [index] = self.array()?;
                    self.put(index.into(), start)?;
                }
                b'r' => {
                    let index = u32::from_le_bytes(self.array()?);
                    self.put(index, start)?;
                }
                b'h' => {
                    let [index] = self.array()?;
                    self.recall(index.into(), start)?;
                }
                b'j' => {
                    let index = u32::from_le_bytes(self.array()?);
                    self.recall(index, start)?;
                }
                b't' => {
                    let items = self.since_mark(start)?;
                    self.push(Value::Tuple(items), start)?;
                }
                0x85..=0x87 => {
                    let items = self.top(usize::from(opcode - 0x84), start)?;
                    self.push(Value::Tuple(items), start)?;
                }
                // APPEND, APPENDS
                b'a' => {
                    let items = self.top(1, start)?;
                    self.append(&items, start)?;
                }
                b'e' => {
                    let items = self.since_mark(start)?;
                    self.append(&items, start)?;
                }
                // SETITEM, SETITEMS
                b's' => {
                    let items = self.top(2, start)?;
                    self.set_items(&items, start)?;
                }
                b'u' => {
                    let items = self.since_mark(start)?;
                    self.set_items(&items, start)?;
                }
                // NEWOBJ
                0x81 => {
                    let (_arguments, class) = (self.pop(start)?, self.pop(start)?);
                    let state = NONE;
                    self.push(Value::Object { class, state }, start)?;
                }
                b'R' => {
                    let (arguments, function) = (self.pop(start)?, self.pop(start)?);
                    let call = Value::Call {
                        function,
                        arguments,
                    };
                    self.push(call, start)?;
                }
                // BUILD
                b'b' => {
                    let built = self.pop(start)?;
                    match self.last(start)? {
                        Value::Object { state, .. } => *state = built,
                        _ => return Err(stack(start, "an object to build")),
                    }
                }
                // BINPERSID
                b'Q' => {
                    let id = self.pop(start)?;
                    self.push(Value::Outside(id), start)?;
                }
                opcode => {
                    return Err(PickleError::Opcode {
                        offset: start,
                        opcode,
                    });
                }
            }
        }
    }

    fn take(&mut self, size: u64) -> Result<Range<usize>, PickleError> {
        let left = self.bytes.len() - self.offset;
        match usize::try_from(size) {
            Ok(size) if size <= left => {
                let start = self.offset;
                self.offset += size;
                Ok(start..self.offset)
            }
            _ => Err(PickleError::Truncated {
                offset: self.offset,
                needed: size,
                left,
            }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let range = self.take(N as u64)?;
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[range]);
        Ok(out)
    }

    fn line(&mut self) -> Result<Range<usize>, PickleError> {
        let rest = &self.bytes[self.offset..];
        let Some(size) = rest.iter().position(|byte| *byte == b'\n') else {
            return Err(PickleError::Truncated {
                offset: self.offset,
                needed: rest.len() as u64 + 1,
                left: rest.len(),
            });
        };
        let line = self.offset..self.offset + size;
        self.offset += size + 1;
        Ok(line)
    }

    /// A little-endian integer in two's complement.
    fn long(&mut self, size: u64, start: usize) -> Result<i64, PickleError> {
        let range = self.take(size)?;
        let bytes = &self.bytes[range];
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut number = [if negative { 0xff } else { 0 }; 8];
        match number.get_mut(..bytes.len()) {
            Some(low) => low.copy_from_slice(bytes),
            None => return Err(stack(start, "an integer of 64 bits")),
        }
        Ok(i64::from_le_bytes(number))
    }

    fn string(&mut self, size: u64, start: usize) -> Result<(), PickleError> {
        let range = self.take(size)?;
        self.push(Value::Text(range), start)
    }

    fn push(&mut self, value: Value, offset: usize) -> Result<(), PickleError> {
        let id = Id::try_from(self.values.len());
        match id {
            Ok(id) if self.values.len() < self.limit => {
                self.values.push(value);
                self.stack.push(id);
                Ok(())
            }
            _ => Err(PickleError::Values {
                offset,
                limit: self.limit,
            }),
        }
    }

    /// Where the values since the last mark start.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or_default()
    }

    fn pop(&mut self, offset: usize) -> Result<Id, PickleError> {
        let floor = self.floor();
        match self.stack.len() {
            size if size > floor => self.stack.pop().ok_or_else(|| stack(offset, "a value")),
            _ => Err(stack(offset, "a value")),
        }
    }

    fn top(&mut self, count: usize, offset: usize) -> Result<Vec<Id>, PickleError> {
        let floor = self.floor();
        match self.stack.len().checked_sub(count) {
            Some(start) if start >= floor => Ok(self.stack.split_off(start)),
            _ => Err(stack(offset, "as many values as the opcode takes")),
        }
    }

    fn since_mark(&mut self, offset: usize) -> Result<Vec<Id>, PickleError> {
        let start = self.marks.pop().ok_or_else(|| stack(offset, "a mark"))?;
        Ok(self.stack.split_off(start))
    }

    fn last(&mut self, offset: usize) -> Result<&mut Value, PickleError> {
        let floor = self.floor();
        let id = self.stack.get(floor..).and_then(<[Id]>::last);
        match id {
            Some(&id) => Ok(&mut self.values[id as usize]),
            None => Err(stack(offset, "a value")),
        }
    }

    fn append(&mut self, items: &[Id], offset: usize) -> Result<(), PickleError> {
        match self.last(offset)? {
            Value::List(list) => {
                list.extend_from_slice(items);
                Ok(())
            }
            _ => Err(stack(offset, "a list")),
        }
    }

    fn set_items(&mut self, items: &[Id], offset: usize) -> Result<(), PickleError> {
        if !items.len().is_multiple_of(2) {
            return Err(stack(offset, "a value for each key"));
        }
        match self.last(offset)? {
            Value::Dict(dict) => {
                dict.extend_from_slice(items);
                Ok(())
            }
            _ => Err(stack(offset, "a dictionary")),
        }
    }

    fn put(&mut self, index: u32, offset: usize) -> Result<(), PickleError> {
        let floor = self.floor();
        match self.stack.get(floor..).and_then(<[Id]>::last) {
            Some(&id) => {
                self.memo.insert(index, id);
                Ok(())
            }
            None => Err(stack(offset, "a value to remember")),
        }
    }

    fn recall(&mut self, index: u32, offset: usize) -> Result<(), PickleError> {
        match self.memo.get(&index) {
            Some(&id) => {
                self.stack.push(id);
                Ok(())
            }
            None => Err(stack(offset, "a value that was remembered")),
        }
    }
}

const fn stack(offset: usize, expected: &'static str) -> PickleError {
    PickleError::Stack { offset, expected }
}
