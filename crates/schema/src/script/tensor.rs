//! Tensors of a saved module: where their bytes are.

use std::ops::Range;

use super::ScriptError;
use super::pickle::{Id, Pickle, Value};

/// A tensor of a saved module.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptTensor {
    /// Where it stands, such as `model.weight` or `CONSTANTS.c1`.
    pub name: String,
    /// The class of its storage, which says its element type: `FloatStorage`,
    /// `BFloat16Storage` and so on.
    pub storage: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Elements from one index to the next, for each dimension.
    pub strides: Vec<u64>,
    /// Elements of the storage before its first.
    pub offset: u64,
    /// The member that holds its storage.
    pub member: String,
}

impl ScriptTensor {
    /// Bytes of one element; `None` for a storage class that is not known.
    ///
    /// Source: the classes of `torch/storage.py` of PyTorch.
    #[must_use]
    pub fn element_size(&self) -> Option<u64> {
        Some(match self.storage.as_str() {
            "ByteStorage" | "CharStorage" | "BoolStorage" => 1,
            "HalfStorage" | "BFloat16Storage" | "ShortStorage" => 2,
            "FloatStorage" | "IntStorage" => 4,
            "DoubleStorage" | "LongStorage" | "ComplexFloatStorage" => 8,
            "ComplexDoubleStorage" => 16,
            _ => return None,
        })
    }

    /// Whether it may be a NEFF or a metaneff.
    pub(super) fn is_bytes(&self) -> bool {
        matches!(self.storage.as_str(), "ByteStorage" | "CharStorage") && self.shape.len() == 1
    }

    /// Its bytes within its storage.
    pub(super) fn range(&self) -> Result<Range<usize>, ScriptError> {
        let failed = |detail: &str| ScriptError::Tensor {
            name: self.name.clone(),
            detail: detail.to_owned(),
        };
        let size = self
            .element_size()
            .ok_or_else(|| failed("its storage class is not known"))?;
        let large = || failed("it is larger than memory can be");
        let mut count: u64 = 1;
        for (dim, stride) in self.shape.iter().zip(&self.strides).rev() {
            if *dim != 1 && *stride != count && !self.shape.contains(&0) {
                return Err(failed("its elements do not follow one another"));
            }
            count = count.checked_mul(*dim).ok_or_else(large)?;
        }
        let bytes = |elements: u64| {
            let bytes = elements.checked_mul(size)?;
            usize::try_from(bytes).ok()
        };
        let start = bytes(self.offset).ok_or_else(large)?;
        let length = bytes(count).ok_or_else(large)?;
        Ok(start..start.checked_add(length).ok_or_else(large)?)
    }

    /// A value as a tensor, if it is one: a call of `_rebuild_tensor_v2` with a
    /// storage outside, or one that wraps such a call as a parameter.
    pub(super) fn of(pickle: &Pickle<'_>, id: Id, folder: &str) -> Option<Self> {
        let Value::Call {
            function,
            arguments,
        } = pickle.get(id)
        else {
            return None;
        };
        let arguments = pickle.tuple(*arguments)?;
        if pickle.is_global(*function, "torch._utils", "_rebuild_parameter") {
            // A parameter of a parameter is none.
            let inner = *arguments.first()?;
            let Value::Call { function, .. } = pickle.get(inner) else {
                return None;
            };
            return pickle
                .is_global(*function, "torch._utils", "_rebuild_tensor_v2")
                .then(|| Self::of(pickle, inner, folder))?;
        }
        if !pickle.is_global(*function, "torch._utils", "_rebuild_tensor_v2") {
            return None;
        }
        let [storage, offset, shape, strides, ..] = *arguments else {
            return None;
        };
        let Value::Outside(storage) = pickle.get(storage) else {
            return None;
        };
        let [_, class, key, ..] = *pickle.tuple(*storage)? else {
            return None;
        };
        let numbers = |id: Id| -> Option<Vec<u64>> {
            let number = |&id: &Id| u64::try_from(pickle.int(id)?).ok();
            pickle.tuple(id)?.iter().map(number).collect()
        };
        let (shape, strides) = (numbers(shape)?, numbers(strides)?);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (shape.len() == strides.len()).then_some(Self {
            name: String::new(),
            storage: text(pickle.global(class)?.1),
            shape,
            strides,
            offset: u64::try_from(pickle.int(offset)?).ok()?,
            member: format!("{folder}{}", text(pickle.text(key)?.0)),
        })
    }
}
