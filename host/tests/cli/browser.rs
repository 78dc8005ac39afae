//! The report in a real browser: its first screen, on a phone, in the dark, and on paper.

#[path = "browser/devtools.rs"]
mod devtools;

use super::{DIGITS, folder, stderr, train};
use damper_testing::skip;
use devtools::{Browser, program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const DESK: (u32, u32) = (1280, 800);
const PHONE: (u32, u32) = (390, 844);
/// Folder for the screenshots, if they are to be seen.
const SHOTS: &str = "DAMPER_SCREENSHOTS";

/// Returns the pixels of a PNG: width, and red, green and blue of each pixel.
fn pixels(png: &[u8]) -> (usize, Vec<[u8; 3]>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let depth = info.color_type.samples();
    (info.width as usize, bytes.chunks_exact(depth).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect())
}

/// Returns a screenshot's pixels, and stores it if a folder is named.
fn shot(browser: &mut Browser, name: &str) -> (usize, Vec<[u8; 3]>) {
    let png = browser.screenshot();
    if let Ok(folder) = std::env::var(SHOTS) {
        fs::write(Path::new(&folder).join(format!("{name}.png")), &png).unwrap();
    }
    pixels(&png)
}

/// Returns the relative luminance of a colour (WCAG).
fn luminance(pixel: [u8; 3]) -> f64 {
    let [red, green, blue] = pixel.map(|byte| {
        let share = f64::from(byte) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Returns left, top, right and bottom of an element.
fn place(browser: &mut Browser, selector: &str) -> [f64; 4] {
    let found = browser.evaluate(&format!(
        "(() => {{ const box = document.querySelector({selector:?}).getBoundingClientRect(); \
         return [box.left, box.top, box.right, box.bottom]; }})()"
    ));
    serde_json::from_value(found).unwrap()
}

/// Returns the words that are wholly in the first screen.
fn first_screen(browser: &mut Browser) -> String {
    let found = browser.evaluate(
        "(() => { const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); const seen = []; \
         while (walker.nextNode()) { const range = document.createRange(); range.selectNodeContents(walker.currentNode); \
         const box = range.getBoundingClientRect(); if (box.height > 0 && box.top >= 0 && box.left >= 0 && \
         box.bottom <= innerHeight && box.right <= innerWidth) seen.push(walker.currentNode.data.trim()); } \
         return seen.join(' | '); })()",
    );
    found.as_str().unwrap().into()
}

/// Checks that nothing is wider than the screen, other than in an element that scrolls.
fn assert_fits(browser: &mut Browser, name: &str) {
    let wide = browser.evaluate(
        "[...document.body.querySelectorAll('*')].filter(one => !one.closest('.scroll, details, desc, title') && \
         one.getBoundingClientRect().right > innerWidth + 0.5).map(one => one.outerHTML.slice(0, 80))",
    );
    assert_eq!(wide, Value::Array(vec![]), "{name}");
    let across = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]");
    assert!(across[0].as_u64() <= across[1].as_u64(), "{name}: {across}");
}

/// Checks that the training curve is in the first screen, and drawn in its own colour.
fn assert_curve_shows(browser: &mut Browser, name: &str, (width, pixels): &(usize, Vec<[u8; 3]>)) {
    let [left, top, right, bottom] = place(browser, "svg .curve");
    assert!(right - left > 150.0 && bottom - top > 20.0, "{name}: {left} {top} {right} {bottom}");
    let color =
        browser.evaluate("getComputedStyle(document.querySelector('svg .curve')).stroke.match(/\\d+/g).map(Number)");
    let color: [u8; 3] = serde_json::from_value(color).unwrap();
    let of_color = |pixel: &[u8; 3]| pixel.iter().zip(color).all(|(a, b)| a.abs_diff(b) < 24);
    // Each tenth of the curve's width has pixels of its colour.
    for tenth in 0..10 {
        let part = |share: i32| (left + (right - left) * f64::from(share) / 10.0) as usize;
        let columns = part(tenth)..part(tenth + 1);
        let rows = top as usize..(bottom.ceil() as usize + 1).min(pixels.len() / width);
        let seen = rows.flat_map(|row| columns.clone().map(move |column| row * width + column));
        assert!(seen.filter(|at| of_color(&pixels[*at])).count() >= 5, "{name}: tenth {tenth}");
    }
}

/// Checks that background and text have the contrast of WCAG's AA.
fn assert_scheme(name: &str, pixels: &[[u8; 3]], is_dark: bool) {
    let mut count = BTreeMap::new();
    pixels.iter().for_each(|pixel| *count.entry(*pixel).or_insert(0) += 1);
    let page = *count.iter().max_by_key(|(_, count)| **count).unwrap().0;
    let page = luminance(page);
    assert!(if is_dark { page < 0.02 } else { page > 0.9 }, "{name}: the page has a luminance of {page}");
    let text = pixels.iter().map(|pixel| luminance(*pixel));
    let text = if is_dark { text.fold(0.0, f64::max) } else { text.fold(1.0, f64::min) };
    let contrast = (page.max(text) + 0.05) / (page.min(text) + 0.05);
    assert!(contrast > 7.0, "{name}: {contrast}");
}

/// Returns the pages of a PDF of Chromium on which the links of each table's rows lie, by the table's number.
fn pages_of_tables(pdf: &[u8]) -> BTreeMap<usize, Vec<usize>> {
    let text = String::from_utf8_lossy(pdf);
    let object = |number: &str| {
        let start = text.find(&format!("\n{number} 0 obj")).expect("an object is in the file");
        text[start..].split("endobj").next().unwrap()
    };
    let mut found = BTreeMap::<usize, Vec<usize>>::new();
    let pages = text.split("endobj").filter(|object| object.contains("/Type /Page\n"));
    for (page, object_of_page) in pages.enumerate() {
        let Some((_, links)) = object_of_page.split_once("/Annots [") else { continue };
        for link in links.split_once(']').unwrap().0.split(" 0 R").map(str::trim).filter(|link| !link.is_empty()) {
            let Some((_, uri)) = object(link).split_once("(https://row.invalid/") else { continue };
            found.entry(uri.split(')').next().unwrap().parse().unwrap()).or_default().push(page);
        }
    }
    found
}

/// Writes a link into each row of each table. Returns the number of rows of each.
const LINKS: &str = "[...document.querySelectorAll('table')].map((table, at) => { const rows = [...table.rows]; \
    rows.forEach(row => { const link = document.createElement('a'); link.href = 'https://row.invalid/' + at; \
    link.append('x'); row.cells[0].append(link); }); return rows.length; })";

fn assert_prints_whole_tables(browser: &mut Browser) {
    let rows: Vec<usize> = serde_json::from_value(browser.evaluate(LINKS)).unwrap();
    let pages = pages_of_tables(&browser.print());
    assert!(rows.len() >= 8 && pages.values().flatten().max().is_some_and(|last| *last >= 2), "{rows:?} {pages:?}");
    for (table, rows) in rows.iter().enumerate() {
        let of = &pages[&table];
        assert_eq!(of.len(), *rows, "table {table}: all rows are printed");
        assert!(of.iter().all(|page| *page == of[0]), "table {table} is broken: {of:?}");
    }
}

/// Returns the page of a run of seconds with a training curve.
fn trained(out: &Path) -> PathBuf {
    let flags = ["--epsilon", "3", "--delta", "1e-5", "--epochs", "6", "--eval-every", "1"];
    let output = train("onnx-models/digits-cnn.onnx", DIGITS, out, &flags).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    out.join("report.html")
}

#[test]
fn report_is_readable_in_a_browser() {
    let Some(program) = program() else { return skip("chromium", "there is no chromium") };
    let (_guard, out) = folder();
    let page = trained(&out);
    let mut browser = Browser::start(program);

    for scheme in ["light", "dark"] {
        let name = format!("desk-{scheme}");
        browser.open(&page, DESK, scheme);
        let found = shot(&mut browser, &name);
        let words = first_screen(&mut browser);
        for word in
            ["Privacy report", "digits-cnn.onnx", "idx:digits", "date", "accuracy", " %", "ε, at most", "ε so far"]
        {
            assert!(words.contains(word), "{name}: {word} is not in the first screen: {words}");
        }
        assert_fits(&mut browser, &name);
        assert_curve_shows(&mut browser, &name, &found);
        assert_scheme(&name, &found.1, scheme == "dark");
    }

    browser.open(&page, PHONE, "light");
    shot(&mut browser, "phone");
    let words = first_screen(&mut browser);
    for word in ["digits-cnn.onnx", "idx:digits", "accuracy"] {
        assert!(words.contains(word), "phone: {word} is not in the first screen: {words}");
    }
    assert_fits(&mut browser, "phone");
    let small =
        browser.evaluate("[...document.querySelectorAll('svg text')].map(one => one.getBoundingClientRect().height)");
    let small: Vec<f64> = serde_json::from_value(small).unwrap();
    assert!(small.iter().all(|height| *height >= 8.0), "{small:?}");

    browser.open(&page, DESK, "dark");
    assert_prints_whole_tables(&mut browser);
}

// The checks fail for a page with each fault.
#[test]
fn browser_checks_see_faults() {
    let Some(program) = program() else { return skip("chromium", "there is no chromium") };
    let (_guard, out) = folder();
    fs::create_dir(&out).unwrap();
    let rows = "<tr><td>row</td></tr>".repeat(30);
    let page = out.join("page.html");
    let text = format!(
        "<!DOCTYPE html><meta name='viewport' content='width=device-width'><body style='background:#fff;color:#000'>\
         <p style='width:900px'>wide</p><p style='margin-top:900px'>below</p><table>{rows}</table><table>{rows}</table>\
         <table style='break-inside:avoid'>{rows}</table></body>"
    );
    fs::write(&page, text).unwrap();
    let mut browser = Browser::start(program);
    browser.open(&page, PHONE, "dark");
    let words = first_screen(&mut browser);
    assert!(words.contains("wide") && !words.contains("below"), "{words}");
    let found = pixels(&browser.screenshot());
    assert!(std::panic::catch_unwind(|| assert_scheme("white", &found.1, true)).is_err());
    let fits = std::panic::AssertUnwindSafe(|| assert_fits(&mut browser, "wide"));
    assert!(std::panic::catch_unwind(fits).is_err());
    assert_eq!(serde_json::from_value::<Vec<usize>>(browser.evaluate(LINKS)).unwrap(), [30, 30, 30]);
    let pages = pages_of_tables(&browser.print());
    assert!(pages.values().all(|pages| pages.len() == 30), "{pages:?}");
    let is_broken = |table: usize| pages[&table].iter().any(|page| *page != pages[&table][0]);
    assert!((is_broken(0) || is_broken(1)) && !is_broken(2), "{pages:?}");
}
