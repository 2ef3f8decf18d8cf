//! Verify an HLO module, plan it and execute it on the CPU.
