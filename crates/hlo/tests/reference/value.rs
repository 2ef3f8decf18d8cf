//! Values of the reference: flat vectors of `f64` with dimensions.

use metaneff_hlo::array::Array;
use metaneff_hlo::element::ElementType;
use metaneff_schema::xla::{PrimitiveType, ShapeProto};

/// What the reference does not know: an opcode, a type, a variant.
#[derive(Debug)]
pub(crate) struct Unknown(pub(crate) String);

/// An element type of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    S32,
    S64,
    Pred,
}

impl Kind {
    pub(crate) fn of(shape: &ShapeProto) -> Result<Self, Unknown> {
        match shape.element_type() {
            PrimitiveType::F32 => Ok(Self::F32),
            PrimitiveType::S32 => Ok(Self::S32),
            PrimitiveType::S64 => Ok(Self::S64),
            PrimitiveType::Pred => Ok(Self::Pred),
            other => Err(Unknown(other.as_str_name().to_owned())),
        }
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::S32 | Self::S64)
    }

    /// The number of this type that an integer wraps to.
    pub(crate) fn wrapped(self, value: i64) -> f64 {
        match self {
            Self::S32 => f64::from(value as i32),
            Self::Pred => f64::from(u8::from(value != 0)),
            Self::F32 | Self::S64 => value as f64,
        }
    }
}

/// An array.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) kind: Kind,
    pub(crate) dims: Vec<usize>,
    /// The elements, the last dimension fastest.
    pub(crate) values: Vec<f64>,
}

impl Tensor {
    /// The array of `shape` whose element at an index is `element(index)`,
    /// rounded to `f32` where that is the type.
    pub(crate) fn build(
        shape: &ShapeProto,
        mut element: impl FnMut(&[usize]) -> Result<f64, Unknown>,
    ) -> Result<Self, Unknown> {
        let kind = Kind::of(shape)?;
        let dims = sizes(&shape.dimensions);
        let mut values = Vec::new();
        for index in indices(&dims) {
            let value = element(&index)?;
            values.push(match kind {
                Kind::F32 => f64::from(value as f32),
                Kind::S32 | Kind::S64 | Kind::Pred => value,
            });
        }
        Ok(Self { kind, dims, values })
    }

    pub(crate) fn scalar(kind: Kind, value: f64) -> Self {
        Self {
            kind,
            dims: Vec::new(),
            values: vec![value],
        }
    }

    pub(crate) fn at(&self, index: &[usize]) -> f64 {
        let mut flat = 0;
        for (position, dim) in index.iter().zip(&self.dims) {
            flat = flat * dim + position;
        }
        self.values[flat]
    }

    /// The values of an array that the executor takes or gives, in row-major
    /// order.
    pub(crate) fn from_array(array: &Array) -> Result<Self, Unknown> {
        let failed = "the array has the type that its shape names";
        let (kind, values) = match array.shape().element() {
            ElementType::F32 => {
                let values = array.values::<f32>().expect(failed);
                (Kind::F32, values.iter().map(|&x| f64::from(x)).collect())
            }
            ElementType::S32 => {
                let values = array.values::<i32>().expect(failed);
                (Kind::S32, values.iter().map(|&x| f64::from(x)).collect())
            }
            ElementType::S64 => {
                let values = array.values::<i64>().expect(failed);
                (Kind::S64, values.iter().map(|&x| x as f64).collect())
            }
            ElementType::Pred => {
                let values = array.bytes().iter().map(|&x| f64::from(x));
                (Kind::Pred, values.collect())
            }
            other => return Err(Unknown(other.to_string())),
        };
        Self {
            kind,
            dims: array.shape().dims().to_vec(),
            values,
        }
        .representable()
    }

    /// The array itself unless it has integers that `f64` cannot hold.
    pub(crate) fn representable(self) -> Result<Self, Unknown> {
        let limit = 2_f64.powi(53);
        if self.kind == Kind::S64 && self.values.iter().any(|value| value.abs() >= limit) {
            return Err(Unknown("integers beyond 2^53".to_owned()));
        }
        Ok(self)
    }
}

/// What an instruction gives.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Array(Tensor),
    Tuple(Vec<Self>),
}

impl Value {
    pub(crate) fn tensor(&self) -> Result<&Tensor, Unknown> {
        match self {
            Self::Array(tensor) => Ok(tensor),
            Self::Tuple(_) => Err(Unknown("a tuple as an operand".to_owned())),
        }
    }

    /// The arrays, depth first.
    pub(crate) fn leaves(&self) -> Vec<&Tensor> {
        match self {
            Self::Array(tensor) => vec![tensor],
            Self::Tuple(values) => values.iter().flat_map(Self::leaves).collect(),
        }
    }
}

/// The indices of an array, the last dimension fastest.
pub(crate) fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &dim in dims {
        let mut longer = Vec::new();
        for index in &all {
            for position in 0..dim {
                let mut index: Vec<usize> = index.clone();
                index.push(position);
                longer.push(index);
            }
        }
        all = longer;
    }
    all
}

pub(crate) fn size(number: i64) -> usize {
    usize::try_from(number).expect("a verified module has no negative sizes")
}

pub(crate) fn sizes(numbers: &[i64]) -> Vec<usize> {
    numbers.iter().map(|&number| size(number)).collect()
}
