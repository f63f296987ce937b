// Drawings as SVG text: elements, text widths, and the colours of all charts. Colours are names
// that the style sheet resolves, light or dark as the reader prefers; series differ by dashes and
// markers too, so that they can be told apart without colours and on paper.
//
//   Drawing drawing(440.0, 240.0);
//   drawing.line({10.0, 10.0}, {90.0, 10.0}, "grid");
//   drawing.text({.at = {10.0, 30.0}, .text = "loss"});
//   const std::string svg = svg_file({.title = "Loss", .description = "...", .drawing = drawing});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::report {

// Number of colours, dashes and markers; further series begin again with the first.
inline constexpr size_t kNumStyles = 6;

struct Point {
  double x = 0.0;
  double y = 0.0;
};

struct Box {
  double x = 0.0;
  double y = 0.0;
  double width = 0.0;
  double height = 0.0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
  bool overlaps(const Box& other) const;
};

// Returns `text` with the characters that XML reserves replaced, and without those it forbids.
std::string escape_xml(std::string_view text);

// Estimates the width of a text in the fonts that browsers use. `size`: of the font.
double text_width(std::string_view text, double size);
// Returns `text`, or its beginning and "…" where it is wider.
std::string fit_text(std::string_view text, double size, double max_width);

enum class Anchor { kStart, kMiddle, kEnd };

struct SvgText {
  // On the base line.
  Point at;
  std::string text;
  Anchor anchor = Anchor::kStart;
  // Classes of the style sheet: "muted", "strong".
  std::string classes = {};
};

// Size of the text in charts.
inline constexpr double kFontSize = 12.0;

class Drawing {
 public:
  Drawing() = default;
  Drawing(double width, double height) : width_(width), height_(height) {}

  double width() const { return width_; }
  double height() const { return height_; }
  const std::string& body() const { return body_; }

  void line(Point from, Point to, std::string_view classes);
  void box(const Box& box, std::string_view classes);
  // Connects the points; further calls draw further lines.
  void polyline(const std::vector<Point>& points, std::string_view classes);
  void polygon(const std::vector<Point>& points, std::string_view classes);
  // The marker of a series: circle, square, diamond, triangle, cross, ring.
  void marker(Point at, size_t style, double radius = 3.5);
  void text(const SvgText& text);
  // A tooltip for what is drawn until end_group().
  void begin_group(std::string_view tooltip);
  void end_group();

 private:
  double width_ = 0.0;
  double height_ = 0.0;
  std::string body_;
};

struct Figure {
  std::string title;
  // For readers who do not see the drawing, and as its caption.
  std::string description = {};
  Drawing drawing = {};
  // Takes the whole width of a page.
  bool is_wide = false;
  // Shown instead on narrow screens; empty: the drawing itself, smaller.
  Drawing narrow = {};
  // Name of a file for it: "loss".
  std::string name = {};
};

// Returns the drawing as an element of a page that contains chart_style().
std::string inline_svg(const Figure& figure);
// Returns a file with the title above the drawing and the style inside.
std::string svg_file(const Figure& figure);

// Style sheet of the drawings, without the surrounding element.
std::string chart_style();

}  // namespace sotto::report
