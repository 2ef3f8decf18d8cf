//! Every order in which threads can meet in what they share: the lazy load, the
//! pool, and the weights that a session's slots are bound from.
//!
//! The modules are those of the crate, over locks whose schedules loom explores.

mod sync {
    //! In place of the crate's `sync`.

    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "../src/load/latch.rs"]
#[expect(dead_code, reason = "what waits with a limit has no place in a model")]
mod latch;
#[path = "../src/parallel/store.rs"]
#[expect(dead_code, reason = "what waits with a limit has no place in a model")]
mod store;
#[path = "../src/model/versioned.rs"]
mod versioned;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;

use latch::{Latch, Progress};
use store::Store;
use versioned::Versioned;

#[test]
fn the_first_uses_of_a_lazy_model_load_it_once() {
    loom::model(|| {
        let latch = Arc::new(Latch::new());
        let made = Arc::new(AtomicUsize::new(0));
        let first_use = |latch: &Latch<usize>, made: &AtomicUsize| {
            latch.get_or_make(|| made.fetch_add(1, Ordering::Relaxed))
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (latch, made) = (Arc::clone(&latch), Arc::clone(&made));
                thread::spawn(move || first_use(&latch, &made))
            })
            .collect();
        let own = first_use(&latch, &made);
        for other in others {
            assert_eq!(other.join().unwrap(), own);
        }
        assert_eq!(made.load(Ordering::Relaxed), 1);
        assert_eq!(latch.progress(), Progress::Done);
    });
}

#[test]
fn a_use_during_a_background_load_gets_its_result() {
    loom::model(|| {
        let latch = Arc::new(Latch::new());
        assert!(latch.begin());
        let background = Arc::clone(&latch);
        let load = thread::spawn(move || background.finish(|| 7));
        // It waits, or comes after the end; it never loads itself.
        assert_eq!(latch.get_or_make(|| 8), 7);
        assert_eq!(latch.wait(), Some(7));
        load.join().unwrap();
    });
}

#[test]
fn a_background_load_leaves_its_model_to_whoever_waits() {
    loom::model(|| {
        let latch = Arc::new(Latch::new());
        assert!(latch.begin());
        let background = Arc::clone(&latch);
        let load = thread::spawn(move || background.fill(|| Arc::new(7)));
        // Unloading it needs the only handle.
        let model = latch.wait_and_take(None).unwrap();
        assert_eq!(Arc::strong_count(&model), 1);
        load.join().unwrap();
        assert_eq!(latch.progress(), Progress::Idle);
    });
}

#[test]
fn an_unload_beside_a_use_forgets_the_model_or_comes_too_early() {
    loom::model(|| {
        let latch = Arc::new(Latch::new());
        let made = Arc::new(AtomicUsize::new(0));
        let (other, count) = (Arc::clone(&latch), Arc::clone(&made));
        let user = thread::spawn(move || {
            other.get_or_make(|| count.fetch_add(1, Ordering::Relaxed));
        });
        let taken = latch.take();
        user.join().unwrap();
        let again = latch.get_or_make(|| made.fetch_add(1, Ordering::Relaxed));
        // Each value was made once, and one that was taken is not seen again.
        assert_eq!(again, usize::from(taken.is_some()));
        assert_eq!(made.load(Ordering::Relaxed), again + 1);
    });
}

#[test]
fn a_pooled_session_has_one_holder_and_comes_back() {
    loom::model(|| {
        let store = Arc::new(Store::new(vec![0_u32]));
        let users: Vec<_> = (0..2)
            .map(|_| {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    let session = store.take();
                    // Whoever has it is alone with it.
                    assert_eq!(store.len(), 0);
                    assert!(store.try_take().is_none());
                    store.put(session + 1);
                })
            })
            .collect();
        for user in users {
            user.join().unwrap();
        }
        assert_eq!(store.take(), 2);
    });
}

#[test]
fn two_sessions_serve_three_threads() {
    let mut model = loom::model::Builder::new();
    // Enough for every pair of switches that matters, and done in a second.
    model.preemption_bound = Some(2);
    model.check(|| {
        let store = Arc::new(Store::new(vec![1_u32, 2]));
        let users: Vec<_> = (0..2)
            .map(|_| {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    let session = store.take();
                    store.put(session);
                })
            })
            .collect();
        let session = store.take();
        store.put(session);
        for user in users {
            user.join().unwrap();
        }
        let mut all = [store.take(), store.take()];
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert_eq!(store.len(), 0);
    });
}

#[test]
fn weights_of_a_version_are_never_bound_under_another() {
    loom::model(|| {
        let weights = Arc::new(Versioned::new(0_u64));
        let writer = Arc::clone(&weights);
        let writer = thread::spawn(move || {
            writer.replace(|version| version + 1);
            writer.replace(|version| version + 1);
        });
        // What a session does at the start of each launch.
        let (mut bound, mut epoch) = weights.get();
        assert_eq!(*bound, epoch);
        for _ in 0..2 {
            if epoch != weights.epoch() {
                let before = epoch;
                (bound, epoch) = weights.get();
                assert!(epoch > before);
            }
            assert_eq!(*bound, epoch);
        }
        writer.join().unwrap();
        assert_eq!(weights.epoch(), 2);
        assert_eq!(*weights.get().0, 2);
    });
}
