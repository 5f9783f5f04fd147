// The label map: a file next to the shards with the class names, one per line, by label.
//
// The label map of out/train-000000.tar, out/train-000001.tar, ... is out/train-classes.txt: the
// number at the end of the name is replaced.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/opener.h"

namespace millrace::tools {

/// The url of the label map of `shard`'s set.
std::string label_map_url(const std::string& shard);

/// Throws: InvalidArgument, with `url`, for two labels of one name.
void check_distinct(const std::vector<std::string>& names, const std::string& url);

/// Before a map is written. Throws: InvalidArgument, with `url`, for names that would not be read
/// again as they are: one with a line break, which would move those behind it, or two of one name.
void check_names(const std::vector<std::string>& names, const std::string& url);

/// The names in the file at `url`. Throws: NotFound, Io.
std::vector<std::string> read_names(const io::Opener& opener, const std::string& url);

/// The set's class names; empty if there is no map. Throws: Io if it cannot be read; as
/// check_distinct().
std::vector<std::string> read_label_map(const io::Opener& opener, const std::string& shard);

/// The label maps of several sets, each of which is read once. Threads: one at a time.
class LabelMaps {
 public:
  /// `opener` is borrowed.
  explicit LabelMaps(const io::Opener& opener) : opener_(opener) {}

  /// The class names of the sets that `shards` are of, 64 at most, as far as they have maps.
  /// `known`: names that they must agree with, from `known_from`, a model's. Throws:
  /// InvalidArgument for a class that has one label in one set and another in the other, or a label
  /// that is of two classes; as read_label_map().
  std::vector<std::string> names(std::span<const std::string> shards,
                                 std::vector<std::string> known = {}, std::string known_from = {});

 private:
  void read(std::span<const std::string> shards);

  const io::Opener& opener_;
  std::map<std::string, std::vector<std::string>> known_;  ///< by label_map_url()
};

/// LabelMaps::names() of a command that asks once.
std::vector<std::string> read_label_map(const io::Opener& opener,
                                        std::span<const std::string> shards,
                                        std::vector<std::string> known = {},
                                        std::string known_from = {});
void write_label_map(const io::Opener& opener, const std::vector<std::string>& names,
                     const std::string& path);

}  // namespace millrace::tools
