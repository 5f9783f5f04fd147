// Helpers shared by the program's tests: running it, and making small inputs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "wds/sample.h"

namespace millrace::testing {

/// Runs the built program with `words`.
ProcessResult millrace(std::vector<std::string> words, const ProcessOptions& options = {});

/// The lines of `text`, each parsed as JSON.
std::vector<nlohmann::json> json_lines(const std::string& text);

/// `count` synthetic samples of 16 x 16 pixels in shards of `per_shard` under dir/set-%06d.tar;
/// gives the shards' spec. The shards have no indexes.
std::string make_set(const TempDir& dir, int count, int per_shard,
                     const std::vector<std::string>& more = {});

/// An IDX file of bytes.
std::string idx_bytes(const std::vector<int>& shape, const std::string& data);

/// The samples of the shards as `ls` lists them: key, fields with their offset, size and CRC-32.
std::vector<nlohmann::json> list_samples(const std::string& spec);

/// The folder's entries, sorted.
std::vector<std::string> list_dir(const std::string& path);

/// `count` pictures of 16 x 16 with `json` {"patient": "p0007", "labels": [0, 1, 1]}: label k is
/// whether quadrant k is bright. Two shards under dir/NAME-%06d.tar; gives their spec.
std::string make_labelled_set(const TempDir& dir, int count, const std::string& name = "labelled");

/// `count` scenes of `side` x `side`: a bright box before a dark ground, `mask.png` with
/// `mask_value` in the box, `depth.png` the nearer the brighter. Two shards; gives their spec.
std::string make_scene_set(const TempDir& dir, int count, int side, int mask_value = 1);

/// How often `what` occurs in `text`.
std::size_t count_of(const std::string& text, const std::string& what);

/// An index's text as earlier versions wrote it, which does not show that it was changed.
std::string without_seal(const std::string& index);

std::vector<std::string> lines_of(const std::string& text);

std::vector<wds::Sample> read_samples(const std::string& shard);

}  // namespace millrace::testing
