"""The explorer in a real browser."""

from __future__ import annotations

import re
import tomllib

import numpy as np
import pytest

import fedpact as fp
from edges.browser import OPTIONS, axe_source, chromium, explorer
from fedpact.explorer.validation import typed_number
from fedpact.scenario import example

PATIENCE = 120_000  # milliseconds; a busy machine is no failure
REFUSED = "status of 422"  # what browsers say of a refusal, which the page explains
FEDERATION = example("hospitals").federation


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with explorer(tmp_path_factory.mktemp("explorer"), "hospitals") as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason='pip install ".[browser]"')
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium(), args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser, address):
    """The page on a laptop, up to date; whatever it asks for elsewhere, or complains of, fails the test."""
    complaints, here = [], (address.partition("?")[0], "blob:")
    context = browser.new_context(viewport={"width": 1366, "height": 768}, accept_downloads=True)
    context.on("request", lambda request: request.url.startswith(here) or complaints.append(request.url))
    made = context.new_page()
    made.set_default_timeout(PATIENCE)
    made.on("console", lambda said: said.type == "error" and REFUSED not in said.text and complaints.append(said.text))
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.goto(address)
    settled(made)
    yield made
    context.close()
    assert complaints == []


def settled(page):
    page.wait_for_selector("#x-status[data-kind=done]")


def field(page, name):
    return page.locator(f'[data-field="{name}"]')


def shown(page, place):
    return page.locator(place).inner_text().replace("\N{NO-BREAK SPACE}", " ")


def headline(federation):
    """The welfare on the first card of the deal, in euros."""
    best = fp.compare(federation)
    return f"{best.after_departures[best.recommendation.mechanism].welfare:,.0f}"


def varied(**weights):
    changed = np.array(FEDERATION.weights)
    for place, weight in weights.items():
        receiver, giver = map(int, place.removeprefix("w"))
        changed[receiver, giver] = weight
    return FEDERATION.replace(weights=changed)


@pytest.mark.browser
def test_it_loads_with_the_deal_of_the_library(page):
    assert headline(FEDERATION) in shown(page, "#summary")
    for sentence in fp.compare(example("hospitals")).recommendation.sentences:
        assert sentence in shown(page, "#summary")
    for part in ("gains", "deals", "certificates"):
        assert page.locator(f"#{part}").is_visible()
    assert page.locator("#deals table").count() > 2  # every deal, and its transfers
    assert page.locator("#x-curve path").count() == 1


@pytest.mark.browser
def test_an_edited_weight_changes_the_numbers_to_the_librarys(page):
    before = headline(FEDERATION)
    field(page, "weights[0,1]").fill("-0.4")
    after = headline(varied(w01=-0.4))
    assert after != before
    page.wait_for_function("text => document.querySelector('#summary').innerText.includes(text)", arg=after)
    assert "harm" in field(page, "weights[0,1]").get_attribute("class")
    gaps = fp.ExternalityMechanism().solve(varied(w01=-0.4)).ir_gaps
    told = page.locator("#gains tbody td[data-label=Externality]").all_inner_texts()
    numbers = [typed_number(re.match(r"[+−\d,]+", text)[0].replace(",", "")) for text in told]
    np.testing.assert_allclose(numbers, gaps, atol=0.51)


@pytest.mark.browser
def test_an_error_is_explained_in_place_and_mended(page):
    before = shown(page, "#summary")
    cell = field(page, "weights[0,1]")
    cell.fill("half")
    page.wait_for_selector("#x-errors-weights li")
    assert shown(page, "#x-errors-weights") == "Usefulness of City’s data to University must be a number, got “half”"
    field(page, "caps[2]").fill("-5")
    page.wait_for_selector("#x-errors-members li")
    assert "Cap of County must be at least zero, got -5" in shown(page, "#x-errors-members")
    assert cell.input_value() == "half" and cell.get_attribute("aria-invalid") == "true"
    assert "2 fields are not right yet" in shown(page, "#x-status")
    assert shown(page, "#summary") == before  # the last deal stays
    page.locator("#x-errors-weights button").click()
    assert cell.evaluate("each => each === document.activeElement")
    cell.fill("0.9")
    field(page, "caps[2]").fill("60")
    settled(page)
    assert page.locator("#x-form [aria-invalid]").count() == 0
    assert headline(varied(w01=0.9)) in shown(page, "#summary")


@pytest.mark.browser
def test_what_was_typed_survives_a_reload_and_can_be_undone(page):
    field(page, "names[0]").fill("Universität & Söhne")
    field(page, "caps[0]").fill("nonsense")
    page.wait_for_selector("#x-errors-members li")
    page.reload()
    page.wait_for_selector("#x-errors-members li")
    assert field(page, "caps[0]").input_value() == "nonsense"
    assert field(page, "names[0]").input_value() == "Universität & Söhne"
    page.locator('[data-field="caps[0]"]').click()
    page.keyboard.press("Control+A")
    page.keyboard.type("7")
    settled(page)
    page.click("#x-undo")
    page.wait_for_selector("#x-errors-members li")
    assert field(page, "caps[0]").input_value() == "nonsense"


@pytest.mark.browser
def test_federations_are_loaded_and_refused_files_change_nothing(page, tmp_path):
    page.select_option("#x-example", "paper-w2")
    page.wait_for_function("() => document.querySelector('#gains')?.innerText.includes('agent 2')")
    assert field(page, "weights[1,2]").input_value() == "3"
    broken = tmp_path / "broken.toml"
    broken.write_text("weights = [[1.0, 2.0]]\ncosts = 1\npayoff = {family = 'log'}\n", encoding="utf-8")
    page.set_input_files("#x-file", broken)
    page.wait_for_selector("#x-notes p")
    assert "broken.toml: weights[0] must have one number per member" in shown(page, "#x-notes")
    assert field(page, "weights[1,2]").input_value() == "3"
    mine = tmp_path / "mine.toml"
    fp.save_scenario(example("paper-w3"), mine)
    page.set_input_files("#x-file", mine)
    page.wait_for_function("() => document.querySelector('[data-field=\"weights[1,0]\"]').value === '-0.2'")


@pytest.mark.browser
def test_a_slider_moves_the_deals_and_its_value_can_be_kept(page):
    page.click("#x-tab-whatif")
    page.wait_for_selector("#x-moved .panel")
    assert shown(page, "#x-slide-value") == "0.54"
    page.locator("#x-slide").focus()
    page.keyboard.press("Home")
    page.wait_for_function("() => document.querySelector('#x-slide-value').textContent === '-0.46'")
    welfare = fp.ShapleyMechanism().solve(varied(w01=-0.46)).welfare
    assert f"EUR {welfare:,.0f}" in shown(page, "#x-moved .panel:nth-child(2)")
    assert page.locator("#x-range-curves .marker").first.get_attribute("x1") == "0"
    page.click("#x-keep")
    page.wait_for_function("() => document.querySelector('[data-field=\"weights[0,1]\"]').value === '-0.46'")
    page.click("#x-tab-deal")
    after = headline(varied(w01=-0.46))
    page.wait_for_function("text => document.querySelector('#summary').innerText.includes(text)", arg=after)
    page.click("#x-tab-whatif")
    page.fill("#x-slide-pick [data-pick=high]", "x")
    page.wait_for_function("() => document.querySelector('#x-slide-pick .errors').textContent")
    assert "high must be a number" in shown(page, "#x-slide-pick .errors")


@pytest.mark.browser
def test_a_heat_map_is_drawn_and_read(page):
    page.click("#x-tab-map")
    page.wait_for_function("() => document.querySelector('#x-map-right [data-pick=high]').value")
    assert page.locator("#x-map-mechanism").input_value() == "externality"  # the recommended deal
    page.select_option("#x-map-mechanism", "shapley")
    page.fill("#x-map-count", "9")
    page.click("#x-map-draw")
    page.wait_for_selector("#x-map-view svg")
    assert page.locator("#x-map-view rect").count() == 81 + 1
    page.locator("#x-map-view .canvas").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    found = fp.sweep(
        FEDERATION,
        ["weights[0,1]=-0.46:1.54:9", "costs[0]=40:1200:9"],
        metrics=["individual-rationality"],
        mechanisms=["shapley"],
    )
    here = typed_number(
        shown(page, "#x-map-here").rpartition("gain of anybody ")[2].removesuffix(" EUR").replace(",", "")
    )
    value = found.metrics["shapley"]["individual-rationality"][1, 1]
    np.testing.assert_allclose(here, value, rtol=2e-3)  # points are rounded to the digits that tell them apart
    field(page, "weights[0,1]").fill("0.5")
    page.wait_for_selector("#x-map-view.stale")
    assert "has changed since" in shown(page, "#x-map-told")
    page.fill("#x-map-up [data-pick=low]", "many")
    page.click("#x-map-draw")
    page.wait_for_function("() => document.querySelector('#x-map-up .errors').textContent")
    assert "low must be a number" in shown(page, "#x-map-up .errors")


@pytest.mark.browser
def test_a_long_map_can_be_stopped(page):
    page.click("#x-tab-map")
    page.wait_for_function("() => document.querySelector('#x-map-right [data-pick=high]').value")
    page.fill("#x-map-count", "101")
    page.click("#x-map-draw")
    page.wait_for_function("() => / of 10201 points/.test(document.querySelector('#x-map-told').textContent)")
    page.click("#x-map-stop")
    page.wait_for_function("() => document.querySelector('#x-map-told').textContent === 'Stopped.'")
    assert page.locator("#x-map-draw").is_enabled()
    field(page, "weights[0,1]").fill("0.5")  # and the service is free
    after = headline(varied(w01=0.5))
    page.wait_for_function("text => document.querySelector('#summary').textContent.includes(text)", arg=after)


@pytest.mark.browser
def test_departures_are_played(page):
    page.click("#x-tab-leaving")
    page.wait_for_selector("#x-leave-view h3")
    assert shown(page, "#x-leave-view h3") == "Nobody leaves"  # the recommended deal
    page.select_option("#x-leave-mechanism", "shapley")
    page.wait_for_function("() => /Clinic/.test(document.querySelector('#x-leave-view h3').innerText)")
    settled_ = fp.stable_federation(FEDERATION, fp.ShapleyMechanism(), leave="worst")
    for departure in settled_.departures:
        assert departure.leavers[0] in shown(page, "#x-leave-view h3")
        page.click("#x-leave-player [data-step='1']")
    assert "University, City and County stay" in shown(page, "#x-leave-view h3")
    assert page.locator("#x-leave-player [data-step='1']").is_disabled()


@pytest.mark.browser
def test_files_are_taken_home(page, tmp_path):
    field(page, "names[0]").fill("Alma Mater")
    settled(page)
    page.click("#x-tab-files")
    for name in ("report.html", "scenario.toml", "deal.csv", "deal.png"):
        with page.expect_download() as waiting:
            page.click(f'[data-file="{name}"]')
        assert waiting.value.suggested_filename == name
        waiting.value.save_as(tmp_path / name)
    assert "Alma Mater" in (tmp_path / "report.html").read_text(encoding="utf-8")
    saved = tomllib.loads((tmp_path / "scenario.toml").read_text(encoding="utf-8"))
    assert saved["names"][0] == "Alma Mater"
    assert fp.load_scenario(tmp_path / "scenario.toml").federation.caps[0] == 120.0
    field(page, "caps[0]").fill("?")
    page.wait_for_selector("#x-errors-members li")
    page.click('[data-file="report.html"]')
    page.wait_for_selector("#x-notes p")
    assert "correct those that are marked" in shown(page, "#x-notes")


@pytest.mark.browser
def test_everything_can_be_reached_with_the_keyboard(page):
    page.locator("#x-tab-deal").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#x-tab-whatif").get_attribute("aria-selected") == "true"
    page.keyboard.press("End")
    assert page.locator("#x-files").is_visible()
    page.keyboard.press("Home")
    assert page.locator("#x-deal").is_visible()
    field(page, "weights[0,1]").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.field") == "weights[1,1]"
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.field") == "weights[0,1]"
    seen = set()
    page.locator("#x-example").focus()
    for _ in range(90):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.dataset?.field || ''"))
    assert {"x-file", "x-tab-deal", "names[0]", "weights[4,4]", "x-add", "x-family", "payoff.beta", "title"} <= seen


def paste(page, name, text):
    field(page, name).focus()
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.setData("text", text);
            document.activeElement.dispatchEvent(
                new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }""",
        text,
    )


def holds(page, name, text):
    page.wait_for_function(
        '([field, text]) => document.querySelector(`[data-field="${field}"]`)?.value === text', arg=[name, text]
    )


@pytest.mark.browser
def test_cells_of_a_spreadsheet_are_pasted(page):
    paste(page, "weights[0,1]", "0.11\t0.12\r\n1\t0.22\r\n")
    holds(page, "weights[0,1]", "0.11")
    cells = [field(page, f"weights[{row},{column}]").input_value() for row in (0, 1) for column in (1, 2)]
    assert cells == ["0.11", "0.12", "1", "0.22"]
    assert page.evaluate("document.activeElement.dataset.field") == "weights[0,1]"
    after = headline(varied(w01=0.11, w02=0.12, w12=0.22))
    page.wait_for_function("text => document.querySelector('#summary').innerText.includes(text)", arg=after)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1366, "light"), (390, "dark")])
def test_nobody_is_shut_out(browser, address, width, scheme):
    """As far as axe-core can tell: names and roles for screen readers, contrast, reach by keyboard."""
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    settled(page)
    page.evaluate(axe_source())
    waits = {"whatif": "#x-moved .panel", "leaving": "#x-leave-view h3"}
    found = {}
    for tab in ("federation", "deal", "whatif", "map", "leaving", "files"):
        if tab == "federation" and width >= 1024:
            continue
        page.click(f"#x-tab-{tab}")
        page.wait_for_selector(waits.get(tab, f"#x-{tab}"))
        told = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        for each in told["violations"]:
            found[tab, each["id"]] = [node["html"][:160] for node in each["nodes"]][:3]
    context.close()
    assert found == {}


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (390, "dark"), (768, "dark"), (1366, "light")])
def test_nothing_is_cut_off_sideways(browser, address, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    settled(page)
    for tab in ("federation", "deal", "whatif", "map", "leaving", "files"):
        if tab == "federation" and width >= 1024:
            continue
        page.click(f"#x-tab-{tab}")
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
    context.close()
