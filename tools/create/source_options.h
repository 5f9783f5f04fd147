// SourceOptions: the part of `create`'s command line that describes the source of the samples.
// Which sources there are, and what each takes, source_formats() lists.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "tools/create/sample_source.h"
#include "tools/create/source_format.h"
#include "tools/create/synthetic_source.h"

namespace CLI {
class App;
}

namespace millrace::tools {

class SourceOptions {
 public:
  SourceOptions();

  void declare(CLI::App& app);
  /// Throws: InvalidArgument for options that contradict each other or do not apply to the source.
  void check() const;
  /// For an option that resizes pictures. Throws: InvalidArgument where others would keep their
  /// sizes.
  void check_resized_by(const std::string& option) const;
  /// Opens, lists or reads the source. Throws: InvalidArgument, and as the source.
  std::unique_ptr<SampleSource> open(const Log& log) const;
  /// All options that affect the samples' bytes, as one text.
  std::string text() const;

 private:
  void declare_format(CLI::App& app, const SourceFormat& format, std::vector<std::string>& inputs);
  void declare_table(CLI::App& app);
  void declare_synthetic(CLI::App& app);
  void declare_encoding(CLI::App& app);
  void check_source() const;
  void check_taken() const;
  void check_table() const;
  void check_encoding() const;
  bool made_up() const { return !synthetic_.kind.empty(); }
  /// The one that is given; null: synthetic samples.
  const SourceFormat* format() const;
  std::vector<std::string> paths() const;
  std::vector<FolderPair> pairs() const;
  SourceRequest request() const;
  std::unique_ptr<SampleSource> open_as_found(const Log& log) const;
  ImageEncoding encoding() const;
  Recoding recoding() const;
  SyntheticOptions synthetic() const;

  std::vector<std::vector<std::string>> inputs_;  ///< of each of source_formats()
  std::vector<std::string> pairs_;
  bool allow_outside_ = false;
  std::string path_pattern_;
  std::string root_;
  std::string class_depth_;
  std::string label_map_;
  std::string masks_;
  ColumnOptions columns_;
  SyntheticOptions synthetic_{.kind = ""};
  std::string format_;
  std::string resize_;
  int quality_ = 0;  ///< 0: not given
};

}  // namespace millrace::tools
