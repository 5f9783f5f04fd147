// The label map: a file next to the shards with the class names, one per line, by label.
//
// The label map of out/train-000000.tar, out/train-000001.tar, ... is out/train-classes.txt: the
// number at the end of the name is replaced.
#pragma once

#include <string>
#include <vector>

#include "io/opener.h"

namespace millrace::tools {

/// The url of the label map of `shard`'s set.
std::string label_map_url(const std::string& shard);

/// The names in the file at `url`. Throws: NotFound, Io.
std::vector<std::string> read_names(const io::Opener& opener, const std::string& url);

/// The set's class names; empty if there is no map. Throws: Io if it cannot be read.
std::vector<std::string> read_label_map(const io::Opener& opener, const std::string& shard);
void write_label_map(const io::Opener& opener, const std::vector<std::string>& names,
                     const std::string& path);

}  // namespace millrace::tools
