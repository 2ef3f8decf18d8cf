//! Metaneffs written by hand, byte for byte: what the schema's fields look like
//! on the wire.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire(Vec<u8>);

impl Wire {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    /// A field of wire type 0. A negative number takes ten bytes.
    pub(crate) fn number(mut self, field: u32, value: i64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value.cast_unsigned());
        self
    }

    /// A field of wire type 2.
    pub(crate) fn bytes(mut self, field: u32, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A field that is a message.
    pub(crate) fn message(self, field: u32, message: Self) -> Self {
        self.bytes(field, message.0)
    }

    /// Numbers in one field of wire type 2.
    pub(crate) fn packed(self, field: u32, values: &[i64]) -> Self {
        let mut body = Self::new();
        for value in values {
            body.varint(value.cast_unsigned());
        }
        self.message(field, body)
    }

    /// These bytes, whatever they are.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

/// Fields of `MetaTensor`.
pub(crate) mod tensor {
    pub(crate) const NAME: u32 = 1;
    pub(crate) const SHAPE: u32 = 2;
    pub(crate) const DATA_TYPE: u32 = 3;
    pub(crate) const CONTENT: u32 = 4;
    pub(crate) const DYNAMIC_BATCH: u32 = 5;
    pub(crate) const CHECKPOINT_KEY: u32 = 6;
    pub(crate) const TYPE: u32 = 7;
    pub(crate) const USER_INPUT_KEY: u32 = 8;
}

/// Fields of `MetaNeff`.
pub(crate) mod neff {
    pub(crate) const INPUT: u32 = 1;
    pub(crate) const OUTPUT: u32 = 2;
    pub(crate) const CONFIG: u32 = 3;
    pub(crate) const GRAPH: u32 = 4;
    pub(crate) const NAME: u32 = 5;
    pub(crate) const ALIAS: u32 = 6;
    pub(crate) const USER_INPUTS: u32 = 7;
    pub(crate) const STATES: u32 = 8;
    pub(crate) const WEIGHTS: u32 = 9;
}

/// `f32[2]` under this name, without a role.
pub(crate) fn pair(name: &str) -> Wire {
    Wire::new()
        .bytes(tensor::NAME, name)
        .packed(tensor::SHAPE, &[2])
        .number(tensor::DATA_TYPE, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_bytes_are_these() {
        let input = Wire::new()
            .bytes(tensor::NAME, "input0")
            .packed(tensor::SHAPE, &[1, 1, 1, 32])
            .number(tensor::DATA_TYPE, 1)
            .number(tensor::TYPE, 1);
        assert_eq!(
            input.clone().finish(),
            b"\x0a\x06input0\x12\x04\x01\x01\x01\x20\x18\x01\x38\x01"
        );
        let whole = Wire::new().message(neff::INPUT, input).finish();
        assert_eq!(whole[..2], [0x0a, 18]);
        let minus_one = Wire::new().number(2, -1).finish();
        assert_eq!(minus_one, b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    }
}
