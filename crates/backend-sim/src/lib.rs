//! The Backend trait over a simulated Neuron instance.
