"""The page in a real browser: keyboard, narrow and wide, light and dark, accessible, and no word in the console."""

import shutil

import pytest

pytestmark = pytest.mark.xdist_group("page")  # one worker makes what they share
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATHS = (
    "/",
    "/rounds",
    "/rounds/2",
    "/rounds/2/task?task=task1101",
    "/what-if",
    "/clusters",
    "/releases",
    "/what-if?gamma=2",
)


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser, client):
    page = browser.new_page(base_url=str(client.base_url))
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    page.close()
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_has_a_fault_of_accessibility_or_runs_out_of_its_window(page, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    for path in PATHS:
        page.goto(path)
        found = Axe().run(page).response["violations"]
        assert [(path, one["id"], one["nodes"][0]["html"]) for one in found] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


@pytest.mark.parametrize(
    "name", ["x" * 200, "nvidia-a100-sxm4-80gb.partition-07.eu-west-1.example.org"], ids=["endless", "likely"]
)
@pytest.mark.parametrize("width", [360, 900, 1280])
def test_long_names_stay_in_the_window_and_cover_nothing(page, width, name):
    """Of clusters and tasks, wherever they stand."""
    page.set_viewport_size({"width": width, "height": 800})
    for path in PATHS:
        page.goto(path)
        page.evaluate(
            """name => document.querySelectorAll(
                'main a, main h1, .wide tbody th, fieldset tbody th, td.text, .lane .name, .verdict, main li, option'
            ).forEach(each => { each.textContent += ' ' + name; })""",
            name,
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        if page.locator("#wishes").count():
            form, plan = (page.locator(place).bounding_box() for place in ("#wishes", "#plan"))
            table = page.locator("fieldset table").bounding_box()
            assert table["x"] + table["width"] <= form["x"] + form["width"], path
            assert form["x"] + form["width"] <= plan["x"] or form["y"] + form["height"] <= plan["y"], path


def test_a_wish_changes_the_plan_without_a_click(page):
    page.goto("/what-if")
    assert "No task would move" in page.locator("#plan .verdict").inner_text()
    page.get_by_label("a: off").check()
    page.wait_for_selector("#plan .verdict:not(:has-text('No task')):has-text('would move')")
    assert page.locator("#said").text_content() == page.locator("#plan .verdict").text_content()
    assert "off.a=1" in page.url
    told = page.locator("#plan .verdict").inner_text()
    page.reload()
    assert page.locator("#plan .verdict").inner_text() == told
    assert page.get_by_label("a: off").is_checked()
    page.get_by_role("link", name="goes there").first.click()
    assert page.get_by_role("heading", level=1).inner_text().startswith("Why task12")
    page.get_by_role("link", name="Back to it").click()
    assert page.locator("#plan .verdict").inner_text() == told


def test_the_keyboard_reaches_every_control_and_moves_gamma(page):
    page.goto("/what-if")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.name || document.activeElement.textContent"))
        if seen[-1] == "gamma":
            before = float(page.locator("#gamma").input_value())
            page.keyboard.press("ArrowRight")
            page.wait_for_url("**gamma=**")
            assert float(page.locator("#gamma").input_value()) == pytest.approx(before + 0.005)
            assert page.locator("output").inner_text() == f"{before + 0.005:.3f}"
        if seen[-1] == "Match again":
            break
    for name in ("Skip to the content", "source", "gamma", "price", "backlog.a", "off.a", "backlog.c", "Match again"):
        assert name in seen
    page.keyboard.press("Enter")
    page.wait_for_load_state()
    assert "gamma=" in page.url


def test_a_wish_that_cannot_be_is_said_where_the_plan_would_be(page):
    page.goto("/what-if")
    for name in "abc":
        page.get_by_label(f"{name}: off").check()
    page.wait_for_selector("#plan .warning")
    assert page.locator("#plan").inner_text() == "no cluster is left: switch at least one on"
    page.get_by_label("b: off").uncheck()
    page.wait_for_selector("#plan .verdict")


def test_without_scripts_the_button_does_the_same(browser, client):
    context = browser.new_context(java_script_enabled=False, base_url=str(client.base_url))
    page = context.new_page()
    page.goto("/what-if")
    page.get_by_label("a: off").check()
    page.get_by_role("button", name="Match again").click()
    assert "would move" in page.locator("#plan .verdict").inner_text()
    context.close()


def test_a_promotion_by_hand(page, store, board):
    first, second = store.models()["version"]
    page.goto("/releases")
    page.get_by_label("release", exact=True).select_option(second)
    page.get_by_label("token").fill("a-token-of-some-length")
    try:
        page.get_by_role("button", name="Let it decide").click()
        page.wait_for_selector("text=by hand, on the page")
        assert board.models.current() == second
    finally:
        board.models.promote(first, "it was a test")
        board._looked = float("-inf")
        board.refresh()
