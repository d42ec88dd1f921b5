"""Prediction of output lengths."""

from custom_components.fair_share.admission.predict import OutputPredictor


def test_an_unknown_class_is_guessed_and_never_beyond_its_limit() -> None:
    predictor = OutputPredictor()
    assert (predictor.mean(1000), predictor.mean(40)) == (256, 40)
    assert (predictor.left(0, 1000), predictor.left(30, 40)) == (256, 10)


def test_the_mean_follows_the_last_five_answers() -> None:
    predictor = OutputPredictor()
    for tokens in (1000, 1000, 10, 20, 30, 40, 50):
        predictor.observe(tokens)
    assert predictor.mean(1000) == 30
    assert predictor.mean(25) == 25


def test_what_is_left_is_the_mean_of_the_answers_that_were_longer() -> None:
    predictor = OutputPredictor()
    for tokens in (10, 100, 200, 300):
        predictor.observe(tokens)
    assert predictor.left(0, 1000) == 152
    assert predictor.left(10, 1000) == 190
    assert predictor.left(100, 1000) == 150
    assert predictor.left(250, 1000) == 50
    assert predictor.left(250, 260) == 10


def test_an_answer_longer_than_all_before_goes_on_for_a_while() -> None:
    predictor = OutputPredictor()
    predictor.observe(10)
    assert predictor.left(9, 1000) == 8
    assert predictor.left(400, 1000) == 100
    assert predictor.left(1000, 1000) == 0


def test_only_the_last_sixty_answers_count() -> None:
    predictor = OutputPredictor()
    predictor.observe(5000)
    for _ in range(60):
        predictor.observe(20)
    assert predictor.left(0, 6000) == 20
    assert predictor.left(40, 6000) == 10
