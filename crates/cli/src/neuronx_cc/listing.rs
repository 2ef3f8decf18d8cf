//! A module as lines that look like Python, for `--print-nki`.
//!
//! Front ends ask the compiler for the program that it makes of a module, to read
//! it. There is none here; what is listed is the module itself, and says so.

use std::fmt::Write as _;

use metaneff_hlo::Module;

/// The entry computation, one line an instruction.
pub(super) fn listing(module: &Module) -> String {
    let entry = module.entry();
    let instructions = entry.instructions();
    let name = |index: usize| identifier(instructions[index].name());
    let parameters: Vec<_> = entry
        .parameters()
        .iter()
        .map(|index| name(index.get()))
        .collect();
    let mut text = format!(
        "# The HLO module `{}` as it was given: no NKI program, and not to be executed.\n\
         # Written by the neuronx-cc stand-in of metaneff {}.\n\n\n\
         def {}({}):\n",
        module.name().escape_default(),
        env!("CARGO_PKG_VERSION"),
        identifier(module.name()),
        parameters.join(", ")
    );
    for (index, instruction) in instructions.iter().enumerate() {
        if instruction.opcode() == "parameter" {
            continue;
        }
        let operands: Vec<_> = instruction
            .operands()
            .iter()
            .map(|operand| name(operand.get()))
            .collect();
        let _ = writeln!(
            text,
            "    {} = {}({})  # {}",
            name(index),
            identifier(instruction.opcode()),
            operands.join(", "),
            instruction.shape()
        );
    }
    let _ = writeln!(text, "    return {}", name(entry.root().get()));
    text
}

/// A name of HLO as a name of Python.
fn identifier(name: &str) -> String {
    let mut text: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if text.chars().next().is_none_or(|c| c.is_ascii_digit()) {
        text.insert(0, '_');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::identifier;

    #[test]
    fn names_become_identifiers() {
        assert_eq!(identifier("add.3"), "add_3");
        assert_eq!(identifier("3d-conv"), "_3d_conv");
        assert_eq!(identifier(""), "_");
    }
}
