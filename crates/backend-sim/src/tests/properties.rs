//! Random sequences of calls against a plain model.

use metaneff_binding::{Backend, Core, Placement};
use metaneff_schema::nrt::Status;
use proptest::prelude::*;

use super::{contents, start};
use crate::{Sim, SimTensor};

const LIMIT: u64 = 4096;

#[derive(Clone, Debug)]
enum Step {
    Allocate {
        core: u32,
        size: usize,
    },
    Slice {
        of: usize,
        offset: usize,
        size: usize,
    },
    Free {
        which: usize,
    },
    Write {
        to: usize,
        offset: usize,
        data: Vec<u8>,
    },
    Fill {
        to: usize,
        offset: usize,
        value: u8,
        size: usize,
    },
    Copy {
        from: usize,
        at: usize,
        to: usize,
        into: usize,
        size: usize,
    },
    Pin {
        which: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let small = 0_usize..80;
    prop_oneof![
        (0_u32..3, 0_usize..1500).prop_map(|(core, size)| Step::Allocate { core, size }),
        (any::<usize>(), small.clone(), small.clone()).prop_map(|(of, offset, size)| Step::Slice {
            of,
            offset,
            size
        }),
        any::<usize>().prop_map(|which| Step::Free { which }),
        (
            any::<usize>(),
            small.clone(),
            prop::collection::vec(any::<u8>(), 0..40)
        )
            .prop_map(|(to, offset, data)| Step::Write { to, offset, data }),
        (any::<usize>(), small.clone(), any::<u8>(), small.clone()).prop_map(
            |(to, offset, value, size)| Step::Fill {
                to,
                offset,
                value,
                size
            }
        ),
        (
            any::<usize>(),
            small.clone(),
            any::<usize>(),
            small.clone(),
            small
        )
            .prop_map(|(from, at, to, into, size)| Step::Copy {
                from,
                at,
                to,
                into,
                size
            }),
        any::<usize>().prop_map(|which| Step::Pin { which }),
    ]
}

/// What a tensor is, plainly: a window of one of the blocks.
#[derive(Clone, Debug)]
struct Window {
    block: usize,
    core: u32,
    offset: usize,
    size: usize,
}

#[derive(Debug, Default)]
struct Plain {
    blocks: Vec<Vec<u8>>,
    windows: Vec<Window>,
}

impl Plain {
    fn used(&self, core: u32) -> u64 {
        let on_core = self.windows.iter().filter(|w| w.core == core);
        let mut blocks: Vec<_> = on_core.map(|w| w.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let size = |block: usize| self.blocks[block].len().next_multiple_of(64);
        blocks
            .into_iter()
            .map(|b| u64::try_from(size(b)).unwrap())
            .sum()
    }

    fn bytes(&self, window: &Window) -> &[u8] {
        &self.blocks[window.block][window.offset..window.offset + window.size]
    }

    fn bytes_mut(&mut self, index: usize) -> &mut [u8] {
        let Window {
            block,
            offset,
            size,
            ..
        } = self.windows[index];
        &mut self.blocks[block][offset..offset + size]
    }
}

fn apply(sim: &Sim, tensors: &mut Vec<SimTensor>, plain: &mut Plain, step: Step) {
    let count = tensors.len();
    match step {
        Step::Allocate { core, size } => {
            let result = sim.allocate(Placement::Device, Core::new(core), size, c"t");
            let room = u64::try_from(size).unwrap() <= LIMIT - plain.used(core);
            match result {
                Err(error) if core > 1 || size == 0 => assert_eq!(error.status(), Status::INVALID),
                Err(error) => {
                    assert!(!room);
                    assert_eq!(error.status(), Status::RESOURCE);
                }
                Ok(tensor) => {
                    assert!(room && core <= 1 && size > 0);
                    tensors.push(tensor);
                    plain.blocks.push(vec![0; size]);
                    let block = plain.blocks.len() - 1;
                    plain.windows.push(Window {
                        block,
                        core,
                        offset: 0,
                        size,
                    });
                }
            }
        }
        _ if count == 0 => {}
        Step::Slice { of, offset, size } => {
            let of = of % count;
            let fits = size > 0 && offset + size <= plain.windows[of].size;
            let result = sim.slice(&tensors[of], offset, size, c"s");
            assert_eq!(result.is_ok(), fits);
            if let Ok(tensor) = result {
                tensors.push(tensor);
                let mut window = plain.windows[of].clone();
                (window.offset, window.size) = (window.offset + offset, size);
                plain.windows.push(window);
            }
        }
        Step::Free { which } => {
            sim.free(tensors.swap_remove(which % count));
            plain.windows.swap_remove(which % count);
        }
        Step::Write { to, offset, data } => {
            let to = to % count;
            let fits = offset + data.len() <= plain.windows[to].size;
            assert_eq!(sim.write(&tensors[to], offset, &data).is_ok(), fits);
            if fits {
                plain.bytes_mut(to)[offset..offset + data.len()].copy_from_slice(&data);
            }
        }
        Step::Fill {
            to,
            offset,
            value,
            size,
        } => {
            let to = to % count;
            let fits = offset + size <= plain.windows[to].size;
            assert_eq!(sim.fill(&tensors[to], offset, value, size).is_ok(), fits);
            if fits {
                plain.bytes_mut(to)[offset..offset + size].fill(value);
            }
        }
        Step::Copy {
            from,
            at,
            to,
            into,
            size,
        } => {
            let (from, to) = (from % count, to % count);
            let fits = at + size <= plain.windows[from].size
                && into + size <= plain.windows[to].size
                && plain.windows[from].core == plain.windows[to].core;
            let result = sim.copy(&tensors[from], at, &tensors[to], into, size);
            assert_eq!(result.is_ok(), fits);
            if fits {
                let bytes = plain.bytes(&plain.windows[from])[at..at + size].to_vec();
                plain.bytes_mut(to)[into..into + size].copy_from_slice(&bytes);
            }
        }
        Step::Pin { which } => {
            assert!(tensors[which % count].address().is_some());
        }
    }
}

proptest! {
    #[test]
    fn memory_is_that_of_a_plain_model(steps in prop::collection::vec(step(), 0..60)) {
        let sim = start(Sim::builder().memory_limit(LIMIT));
        let mut tensors = Vec::new();
        let mut plain = Plain::default();
        for step in steps {
            apply(&sim, &mut tensors, &mut plain, step);
            for core in 0..2 {
                let used = sim.memory_stats(Core::new(core)).unwrap().used;
                prop_assert_eq!(used, plain.used(core));
            }
            for (tensor, window) in tensors.iter().zip(&plain.windows) {
                prop_assert_eq!(&contents(&sim, tensor), plain.bytes(window));
            }
            prop_assert_eq!(sim.live_objects().tensors, tensors.len());
        }
        for tensor in tensors {
            sim.free(tensor);
        }
        prop_assert_eq!(sim.memory_stats(Core::new(0)).unwrap().used, 0);
        prop_assert_eq!(sim.live_objects().total(), 0);
    }
}
