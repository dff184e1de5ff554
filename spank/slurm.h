// Slurm's spank.h for C++: it declares the callbacks outside its own extern "C" block.
#pragma once

#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>
}
#pragma GCC visibility pop
