//! Any text gives stacks or an error that can be shown; a stack's label gives the same stack again.

use spec::StackSpec;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match StackSpec::parse_list(text) {
        Ok(stacks) => stacks.iter().for_each(again),
        Err(error) => _ = error.to_string(),
    }
    match text.parse() {
        Ok(stack) => again(&stack),
        Err(error) => {
            let error: spec::ParseError = error;
            let _ = error.to_string();
        }
    }
}

fn again(stack: &StackSpec) {
    let label = stack.label();
    match label.parse::<StackSpec>() {
        Ok(same) => assert!(same == *stack, "{label} is another stack"),
        Err(error) => panic!("{label}: {error}"),
    }
}
