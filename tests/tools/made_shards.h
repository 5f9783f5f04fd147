// Shards for tasks beside classification, made up in the test.
#pragma once

#include <string>

#include "tests/support/temp_dir.h"

namespace millrace::testing {

/// `count` pictures of 16 x 16 with `json` {"patient": "p0007", "labels": [0, 1, 1]}: label k is
/// whether quadrant k is bright. Two shards under dir/NAME-%06d.tar; gives their spec.
std::string make_labelled_set(const TempDir& dir, int count, const std::string& name = "labelled");

/// `count` scenes of `side` x `side`: a bright box before a dark ground, `mask.png` with
/// `mask_value` in the box, `depth.png` the nearer the brighter. Two shards; gives their spec.
std::string make_scene_set(const TempDir& dir, int count, int side, int mask_value = 1);

}  // namespace millrace::testing
