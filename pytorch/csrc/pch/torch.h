/* torch.h - compiled once: torch's headers take half a minute, more than all else. Each file still includes what it uses. */
#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
