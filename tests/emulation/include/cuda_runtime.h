// Stands in for the CUDA toolkit's header of this name in what is compiled for the emulated GPUs.
// It holds the part of the language and of the runtime API that this project uses; using more does
// not compile until it is added here.
#pragma once

#include "tests/emulation/device_language.h"
#include "tests/emulation/runtime_api.h"
