// LabelMap: the classes' names, beside the shards, one a line in the order of their labels.
//
// Shards out/train-000000.tar, out/train-000001.tar, ... have theirs in out/train-classes.txt: the
// number at the name's end replaced.
#pragma once

#include <string>
#include <vector>

#include "io/opener.h"

namespace millrace::tools {

/// Where the label map of `shard`'s set lies.
std::string label_map_url(const std::string& shard);

/// The names in the file at `url`. Throws: NotFound, Io.
std::vector<std::string> read_names(const io::Opener& opener, const std::string& url);

/// The set's names; empty when there is no map. Throws: Io when the place cannot be reached.
std::vector<std::string> read_label_map(const io::Opener& opener, const std::string& shard);
void write_label_map(const std::vector<std::string>& names, const std::string& path);

}  // namespace millrace::tools
