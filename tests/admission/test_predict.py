"""Prediction of output lengths."""

from custom_components.fair_share.admission.predict import OutputPredictor


def test_an_unknown_class_is_guessed_and_never_beyond_its_limit() -> None:
    predictor = OutputPredictor()
    assert (predictor.mean(1000), predictor.mean(40)) == (256, 40)
    assert (predictor.p90(1000), predictor.p90(40)) == (256, 40)


def test_the_mean_follows_the_last_five_answers() -> None:
    predictor = OutputPredictor()
    for tokens in (1000, 1000, 10, 20, 30, 40, 50):
        predictor.observe(tokens)
    assert predictor.mean(1000) == 30
    assert predictor.mean(25) == 25


def test_nine_of_the_last_ten_answers_were_no_longer_than_the_ninth_decile() -> None:
    predictor = OutputPredictor()
    for tokens in range(1, 41):
        predictor.observe(tokens)
    assert predictor.p90(1000) == 38
    assert predictor.p90(5) == 5
